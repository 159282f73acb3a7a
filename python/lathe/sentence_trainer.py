"""SentenceTransformerTrainer by its names in sentence-transformers: what `lathe embed` does."""
import json

from . import _lathe
from .text_rows import text_rows
from .text_trainer import TextTrainer
from .trainer import TrainingArguments


class BatchSamplers:
    BATCH_SAMPLER, NO_DUPLICATES = "batch_sampler", "no_duplicates"


class SentenceTransformerTrainingArguments(TrainingArguments):
    """TrainingArguments, and: batch_sampler, "batch_sampler" or "no_duplicates"; prompts, a text or texts by columns."""

    def __init__(self, output_dir=None, *, batch_sampler=BatchSamplers.BATCH_SAMPLER, prompts=None,
                 multi_dataset_batch_sampler=None, **settings):
        super().__init__(output_dir, **settings)  # there is one data set, so the sampler of several has nothing to do
        batch_sampler = getattr(batch_sampler, "value", batch_sampler)
        words = [f"--batch_sampler={batch_sampler}"]
        if prompts is not None:
            words.append("--prompts=" + (json.dumps(prompts) if isinstance(prompts, dict) else prompts))
        self.__dict__.update(batch_sampler=batch_sampler, prompts=prompts, _text_words=words)


class SentenceTransformerTrainer(TextTrainer):
    """Fine-tunes a SentenceTransformer as the class of this name does.  Data sets are rows of texts (anchor, positive,
    negatives, in this order) and perhaps label or score: dicts in a list, a datasets.Dataset, or a dict of lists.  loss: one
    of lathe.losses; None: by the columns.  evaluator: as TextTrainer takes it.  An evaluation also says what the columns of eval_dataset allow.  After `train` the model
    gives vectors of what was learnt."""

    def __init__(self, model, args=None, train_dataset=None, eval_dataset=None, loss=None, evaluator=None,
                 tokenizer=None, data_collator=None, callbacks=None, **others):
        self._refuse({**others, "callbacks": callbacks, "data_collator": data_collator, "tokenizer": tokenizer})
        args = args or SentenceTransformerTrainingArguments()
        train, evaluated = self._take_arguments(model, args, train_dataset, eval_dataset, evaluator)
        words = [*(loss.words if loss else []), *getattr(args, "_text_words", [])]
        self._task = _lathe.SentenceTask(model._folder_of_weights(), words, args._native, train, evaluated)
        self._begin_with(self._task, self._task.train, self._task.eval)

    def _dataset(self, rows):
        return self._task.dataset(text_rows(rows, "eval_dataset"))
