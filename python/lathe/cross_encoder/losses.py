"""The losses of CrossEncoder that `lathe rerank` has, by their names."""
from ..losses import Loss, only_default


class BinaryCrossEntropyLoss(Loss):
    """Labels 0 and 1, or scores between them."""

    def __init__(self, model, activation_fn=None, pos_weight=None):
        only_default("BinaryCrossEntropyLoss", "activation_fn", activation_fn, None, "logits are trained")
        only_default("BinaryCrossEntropyLoss", "pos_weight", pos_weight, None, "all pairs count alike")
        super().__init__(model)


class MSELoss(Loss):
    """Scores of any size."""

    def __init__(self, model, activation_fn=None):
        only_default("MSELoss", "activation_fn", activation_fn, None, "the score itself is trained")
        super().__init__(model)


class CrossEntropyLoss(Loss):
    """Labels are the numbers of classes."""

    def __init__(self, model, activation_fn=None):
        only_default("CrossEntropyLoss", "activation_fn", activation_fn, None, "logits are trained")
        super().__init__(model)
