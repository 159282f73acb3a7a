"""CrossEncoderTrainer."""
from ..sentence_trainer import SentenceTransformerTrainingArguments
from ..text_rows import text_rows
from ..text_trainer import TextTrainer


class CrossEncoderTrainingArguments(SentenceTransformerTrainingArguments):
    """TrainingArguments; batch_sampler and prompts have no other value than their default."""

    def __init__(self, output_dir=None, *, batch_sampler="batch_sampler", prompts=None, **settings):
        if getattr(batch_sampler, "value", batch_sampler) != "batch_sampler" or prompts is not None:
            raise NotImplementedError("CrossEncoderTrainingArguments: batch_sampler and prompts are of vectors of texts, "
                                      "expected none for pairs")
        super().__init__(output_dir, **settings)


class CrossEncoderTrainer(TextTrainer):
    """Fine-tunes a CrossEncoder as the class of this name does.  Data sets are rows of two texts, or of a text and a list of
    documents, and label, labels, score or scores.  loss: one of lathe.cross_encoder.losses; None: BinaryCrossEntropyLoss, of
    classes CrossEntropyLoss.  evaluator: as TextTrainer takes it.  After `train` the model gives scores of what
    was learnt."""

    def __init__(self, model, args=None, train_dataset=None, eval_dataset=None, loss=None, evaluator=None,
                 tokenizer=None, data_collator=None, callbacks=None, **others):
        self._refuse({**others, "callbacks": callbacks, "data_collator": data_collator, "tokenizer": tokenizer})
        args = args or CrossEncoderTrainingArguments()
        rows = self._take_arguments(model, args, train_dataset, eval_dataset, evaluator)
        self._task = model._pair_model(loss.words if loss else [])
        self._begin_with(self._task, *(None if one is None else self._task.dataset(one, True) for one in rows))
        model._native = self._task

    def _dataset(self, rows):
        return self._task.dataset(text_rows(rows, "eval_dataset"), True)
