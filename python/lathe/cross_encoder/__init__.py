"""Cross-encoders by the names of sentence-transformers: what `lathe rerank` does."""
from .model import CrossEncoder
from .trainer import CrossEncoderTrainer, CrossEncoderTrainingArguments
from . import evaluation, losses

__all__ = ["CrossEncoder", "CrossEncoderTrainer", "CrossEncoderTrainingArguments", "evaluation", "losses"]
