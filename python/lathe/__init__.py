"""Lathe from Python: fine-tuning with the names of transformers, computed by Lathe's native code.

    from lathe import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments, pipeline

Rows are dicts as a tokenizer of transformers gives them (`input_ids`, `token_type_ids`, `attention_mask`) with `label` or
`labels`, in a list, a `datasets.Dataset` or any other sequence. Padding is taken out: batches are packed.
"""
from ._lathe import version as __version__
from .data import BatchEncoding, DataCollatorWithPadding
from .models import AutoModelForSequenceClassification, AutoTokenizer, pipeline
from .sentence import SentenceTransformer
from .sentence_trainer import BatchSamplers, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from .trainer import (EvalPrediction, PredictionOutput, Trainer, TrainerState, TrainingArguments, TrainOutput)
from . import evaluation, losses  # after what they stand on
from .cross_encoder import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments

__all__ = ["AutoModelForSequenceClassification", "AutoTokenizer", "BatchEncoding", "BatchSamplers", "CrossEncoder",
           "CrossEncoderTrainer", "CrossEncoderTrainingArguments", "DataCollatorWithPadding", "EvalPrediction",
           "PredictionOutput", "SentenceTransformer", "SentenceTransformerTrainer", "SentenceTransformerTrainingArguments",
           "Trainer", "TrainerState", "TrainingArguments", "TrainOutput", "__version__", "evaluation", "losses", "pipeline"]
