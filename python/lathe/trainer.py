"""Trainer and TrainingArguments."""
import contextlib
import json
import os
import sys
import threading
import types
import warnings
from typing import NamedTuple, Optional

import numpy as np

from . import _lathe
from .data import labels_of, to_dataset


class EvalPrediction(NamedTuple):
    predictions: np.ndarray  # [rows, labels] logits
    label_ids: np.ndarray    # [rows], or [rows, labels]


class PredictionOutput(NamedTuple):
    predictions: np.ndarray
    label_ids: Optional[np.ndarray]
    metrics: dict


class TrainOutput(NamedTuple):
    global_step: int
    training_loss: float
    metrics: dict


class TrainerState(types.SimpleNamespace):
    """The content of trainer_state.json: global_step, epoch, log_history, best_metric, …"""


def word_of(name, value):
    """A setting as words of the command line, which has the same names, rules and messages.  Of an empty list: none."""
    if isinstance(value, (list, tuple)):
        return [] if not value else [f"--{name}", *map(str, value)]
    if isinstance(value, dict):
        value = json.dumps(value)
    return [f"--{name}={getattr(value, 'value', value)}"]  # the value of an enum


class TrainingArguments:
    """Every field of transformers' TrainingArguments and Lathe's own (`lathe arguments` shows them), by keyword.
    ValueError for an unknown or wrong one; a warning for one that has no effect.  They are checked together, and do not
    change afterwards."""

    def __init__(self, output_dir=None, **settings):
        if output_dir is not None:
            settings["output_dir"] = output_dir
        for name in settings:
            _lathe.Arguments.check_name(name)
        words = [word for name, value in settings.items() if value is not None for word in word_of(name, value)]
        native = _lathe.Arguments(words)
        for notice in native.notices:
            warnings.warn(notice, stacklevel=2 if type(self) is TrainingArguments else 3)
        self.__dict__.update(json.loads(native.json()), _native=native)

    def __setattr__(self, name, value):
        raise AttributeError(f"TrainingArguments do not change: give {name}={value!r} when you make them")

    def to_dict(self):
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}


# Other arguments of transformers' Trainer, and what replaces them here.
NOT_THERE = {"callbacks": "early stopping is TrainingArguments(early_stopping_patience=...), logs are in state.log_history",
             "optimizers": "optim and lr_scheduler_type of TrainingArguments choose them",
             "optimizer_cls_and_kwargs": "optim and optim_args of TrainingArguments choose it",
             "model_init": "give model, from which every Trainer starts anew",
             "compute_loss_func": "the loss is that of the model's problem_type",
             "preprocess_logits_for_metrics": "compute_metrics gets all logits",
             "tokenizer": "texts are tokenised with the model's own",
             "data_collator": "batches are packed, and each loss has its own form of them"}


def show(line):
    print(line, flush=True)


def say(is_warning, text):
    if is_warning:
        print(f"lathe: {text}", file=sys.stderr, flush=True)


class NativeTrainer:
    """What trainers of all kinds share.  Ctrl-C writes a checkpoint and raises KeyboardInterrupt.  Other Python threads run
    meanwhile.  What a trainer is made with is taken then, and does not change."""

    model = property(lambda self: self._model)
    args = property(lambda self: self._args)
    train_dataset = property(lambda self: self._train_rows)
    eval_dataset = property(lambda self: self._eval_rows)

    def _refuse(self, settings):
        for name, value in settings.items():
            if name not in NOT_THERE:
                raise TypeError(f"{type(self).__name__}: unexpected argument {name!r}")
            if any(part is not None for part in (value if isinstance(value, (list, tuple)) else [value])):
                raise NotImplementedError(f"{type(self).__name__}: {name} is not there: {NOT_THERE[name]}")

    def _begin(self, model, tokenizer, args, train, evaluated, metrics):
        """model, tokenizer, train, evaluated: native; metrics: called with logits."""
        self._train, self._eval = train, evaluated
        self._made_in = os.getpid()
        self._native = _lathe.Run(model, tokenizer, args._native, train, evaluated, metrics, show, say)

    def _labelled(self, rows):
        """While it lasts, these rows are evaluated."""
        return contextlib.nullcontext()

    @property
    def _run(self):
        if os.getpid() != self._made_in:
            raise RuntimeError("a Trainer or pipeline works in the process that made it: fork copies none of its threads; make "
                               "it in the child")
        return self._native

    def train(self, resume_from_checkpoint=None):
        """resume_from_checkpoint: a checkpoint's folder, or True for the newest in output_dir."""
        resume = "true" if resume_from_checkpoint is True else str(resume_from_checkpoint or "")
        with self._labelled(self.eval_dataset):
            out = json.loads(self._run.train(resume))
        return TrainOutput(out["global_step"], out["training_loss"], out["metrics"])

    def evaluate(self, eval_dataset=None, metric_key_prefix="eval"):
        rows = self.eval_dataset if eval_dataset is None else eval_dataset
        if rows is None:
            raise ValueError(f"evaluate: there is no eval_dataset; give one here or to {type(self).__name__}")
        native = self._eval if eval_dataset is None else self._dataset(rows)
        with self._labelled(rows):
            return json.loads(self._run.evaluate(native, metric_key_prefix))

    def save_model(self, output_dir=None):
        """Weights, config.json and tokenizer, as a Hugging Face folder."""
        self._run.save_model(str(output_dir or ""))

    def push_to_hub(self, commit_message="End of training"):
        """Saves the model and uploads output_dir, without checkpoints, to the hub_model_id of the arguments.  Returns the
        commit's address."""
        return self._run.push_to_hub(commit_message)

    def save_state(self):
        self._run.save_state()

    def all_weights_are_there(self):
        """Whether the model's folder held every weight, the head's among them."""
        return self._run.all_weights_are_there()

    @property
    def state(self):
        return TrainerState(**json.loads(self._run.state()))


class Trainer(NativeTrainer):
    """Fine-tunes a classifier as transformers' Trainer does.  Every Trainer starts from the weights of the model's folder."""

    def __init__(self, model, args=None, data_collator=None, train_dataset=None, eval_dataset=None,
                 processing_class=None, compute_metrics=None, tokenizer=None, **others):
        self._refuse(others)
        self._model = model
        self._args = args or TrainingArguments()
        self._train_rows = train_dataset
        self._eval_rows = eval_dataset
        self._metrics = Metrics(compute_metrics)
        tokenizer = processing_class or tokenizer
        self._begin(model._native, tokenizer._native if tokenizer else None, self._args,
                    None if train_dataset is None else to_dataset(train_dataset, model),
                    None if eval_dataset is None else to_dataset(eval_dataset, model), self._metrics if compute_metrics else None)

    compute_metrics = property(lambda self: self._metrics.function)

    def _dataset(self, rows):
        return to_dataset(rows, self.model)

    def _labelled(self, rows):
        return self._metrics.of_rows(rows)

    def predict(self, test_dataset, metric_key_prefix="test"):
        """Logits of all rows; with labels also their loss and metrics."""
        logits, loss = self._run.predict(to_dataset(test_dataset, self.model))
        labels = labels_of(test_dataset)
        metrics = {} if loss is None else {f"{metric_key_prefix}_loss": loss}
        if labels is not None:
            found = self._metrics.of(logits, labels) if self._metrics.function else {}
            prefix = f"{metric_key_prefix}_"
            metrics.update({name if name.startswith(prefix) else prefix + name: value for name, value in found.items()})
        return PredictionOutput(logits, None if labels is None else np.asarray(labels), metrics)


class Metrics(threading.local):
    """Calls compute_metrics with the labels of the data set at hand: each thread's own, as native code asks in the thread
    that it was called in."""

    def __init__(self, function):
        self.function = function
        self.labels = None

    @contextlib.contextmanager
    def of_rows(self, rows):
        """Within it the current data set is this one; then the earlier one again, because compute_metrics may evaluate
        another."""
        wanted = self.function is not None and rows is not None
        before, self.labels = self.labels, labels_of(rows) if wanted else None
        try:
            yield
        finally:
            self.labels = before

    def __call__(self, logits):
        return self.of(logits, self.labels)

    def of(self, logits, labels):
        found = self.function(EvalPrediction(logits, np.asarray(labels)))
        return {str(name): float(value) for name, value in found.items()}
