"""What the trainers of sentence-transformers' models share."""
from .text_rows import text_rows
from .trainer import NativeTrainer


class TextTrainer(NativeTrainer):
    """evaluator: one of lathe.evaluation or lathe.cross_encoder.evaluation, a list of them, or any function of the model that
    gives a number or a dict of numbers."""

    def _take_arguments(self, model, args, train_dataset, eval_dataset, evaluator):
        """Returns train and eval rows for the native code; without eval_dataset the latter are the first evaluator's."""
        self._evaluators = evaluator if isinstance(evaluator, (list, tuple)) else [] if evaluator is None else [evaluator]
        if eval_dataset is None and self._evaluators and hasattr(self._evaluators[0], "rows"):
            eval_dataset = self._evaluators[0].rows()
        if train_dataset is None and eval_dataset is None:
            raise ValueError(f"{type(self).__name__}: found neither train_dataset nor eval_dataset, expected one of them")
        self._model, self._args, self._train_rows, self._eval_rows = model, args, train_dataset, eval_dataset
        return (None if rows is None else text_rows(rows, name)
                for rows, name in [(train_dataset, "train_dataset"), (eval_dataset, "eval_dataset")])

    def _begin_with(self, native, train, evaluated):
        self._begin(native, None, self._args, train, evaluated, self._found if self._evaluators else None)
        self._model._take(self)

    def _found(self, _):
        """What the evaluators say of the weights as they are now."""
        found = {}
        for evaluator in self._evaluators:
            values = evaluator(self._model)
            found.update(values if isinstance(values, dict) else {"evaluator": values})
        return {str(name): float(value) for name, value in found.items()}
