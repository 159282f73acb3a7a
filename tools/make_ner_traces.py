#!/usr/bin/env python3
"""Makes tests/golden/ner/ with the real packages (torch, transformers): what run_ner does with a tiny random model of each
family, on the CPU, fp32, eager attention, dropout 0, a new head on a base. What each file holds is written in
tests/golden/README.md. Run tools/make_mlm_traces.py first: its tokenizers and models are the bases.

    make_ner_traces.py [family ...]
"""
import pathlib
import sys
import tempfile

import torch
import transformers
from transformers import (AutoModelForTokenClassification, AutoTokenizer, DataCollatorForTokenClassification, Trainer,
                          TrainingArguments, set_seed)

from make_model_traces import BERT_SIZES, ROBERTA, random_everywhere
from make_traces import SEED, WORDS, versions, write_json

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "tests" / "golden"
NER, MLM = GOLDEN / "ner", GOLDEN / "mlm"
STEPS, BATCH, EVAL_BATCH, LENGTH = 20, 4, 3, 20
# The folder of the tokenizer; of the model too, where there is one.
TOKENIZERS = {"bert": "bert", "distilbert": "distilbert", "roberta": "roberta", "xlm_roberta": "xlm_roberta",
              "modernbert": "modernbert", "electra": "bert", "camembert": "xlm_roberta"}
OWN = {"electra": ("Electra", dict(BERT_SIZES, embedding_size=BERT_SIZES["hidden_size"])), "camembert": ("Camembert", ROBERTA)}


def make_sentences():
    """CoNLL: 2 to 20 words, a broken sequence of tags here and there; some are longer than a sample."""
    draw = torch.Generator().manual_seed(5)
    number = lambda below: int(torch.randint(below, (1,), generator=draw))
    tags = ["O", "O", "O", "B-LOC", "I-LOC", "B-PER", "I-PER", "O"]
    for name, count in (("train", 48), ("dev", 11)):
        text = ""
        for _ in range(count):
            for _ in range(number(19) + 2):
                word = WORDS[number(len(WORDS))]
                text += (word.capitalize() if number(4) == 0 else word) + " " + tags[number(len(tags))] + "\n"
            text += "\n"
        (NER / f"{name}.conll").write_text(text)


def sentences(name):
    for part in (NER / f"{name}.conll").read_text().strip().split("\n\n"):
        yield [line.split(" ") for line in part.split("\n")]


def samples(tokenizer, labels, all_tokens):
    """run_ner's tokenize_and_align_labels."""
    inner = [labels.index(x.replace("B-", "I-")) if x.replace("B-", "I-") in labels else i for i, x in enumerate(labels)]
    out = {}
    for name in ("train", "dev"):
        out[name] = []
        for rows in sentences(name):
            e = tokenizer([word for word, _ in rows], padding=False, truncation=True, max_length=LENGTH, is_split_into_words=True)
            ids, before = [], None
            for word in e.word_ids():
                if word is None:
                    ids.append(-100)
                elif word != before:
                    ids.append(labels.index(rows[word][1]))
                else:
                    ids.append(inner[labels.index(rows[word][1])] if all_tokens else -100)
                before = word
            out[name].append({**e, "labels": ids})
    return out


class Run(Trainer):
    """Keeps losses and norms before clipping."""

    def training_step(self, *args, **kwargs):
        loss = super().training_step(*args, **kwargs)
        self.losses.append(loss.item())
        return loss

    def _clip_grad_norm(self, model):
        norm = super()._clip_grad_norm(model)
        self.norms.append(norm.item())
        self.rates.append(self.lr_scheduler.get_last_lr()[0])
        return norm


def base_of(family, tokenizer):
    """A folder of weights without a head for tokens."""
    if family not in OWN:
        return MLM / family
    name, sizes = OWN[family]
    set_seed(SEED)
    config = getattr(transformers, name + "Config")(**{**sizes, "vocab_size": len(tokenizer), "max_position_embeddings": 32})
    model = random_everywhere(getattr(transformers, name + "Model")(config), "base")
    model.save_pretrained(NER / family)
    return NER / family


def make(family):
    more = dict(add_prefix_space=True) if family == "roberta" else {}
    tokenizer = AutoTokenizer.from_pretrained(MLM / TOKENIZERS[family], use_fast=True, **more)
    labels = sorted({tag for rows in sentences("train") for _, tag in rows})
    folder = base_of(family, tokenizer)
    out = {}
    for all_tokens in (False, True):
        data = samples(tokenizer, labels, all_tokens)
        with tempfile.TemporaryDirectory() as output:
            arguments = TrainingArguments(
                output_dir=output, use_cpu=True, seed=SEED, max_steps=STEPS, per_device_train_batch_size=BATCH,
                per_device_eval_batch_size=EVAL_BATCH, save_strategy="no", learning_rate=1e-3, weight_decay=0.01,
                report_to=[], disable_tqdm=True)
            set_seed(SEED)
            config = transformers.AutoConfig.from_pretrained(folder, num_labels=len(labels))
            model = AutoModelForTokenClassification.from_pretrained(folder, config=config, attn_implementation="eager")
            head = model.classifier.weight.flatten()[:8].tolist()
            trainer = Run(model=model, args=arguments, train_dataset=data["train"], eval_dataset=data["dev"],
                          processing_class=tokenizer, data_collator=DataCollatorForTokenClassification(tokenizer))
            trainer.losses, trainer.norms, trainer.rates = [], [], []
            trainer.train()
            evaluation = trainer.predict(data["dev"])
        kind = "all_tokens" if all_tokens else "first_tokens"
        out[kind] = {"losses": trainer.losses, "grad_norms": trainer.norms, "learning_rates": trainer.rates,
                     "classifier_weight": head, "eval_loss": evaluation.metrics["test_loss"],
                     "predictions": [[p for p, label in zip(row, ids) if label != -100] for row, ids in
                                     zip(evaluation.predictions.argmax(-1).tolist(), evaluation.label_ids.tolist())]}
        out[kind + "_samples"] = [[s["input_ids"], s["labels"]] for s in data["train"]]
    write_json(NER / f"{family}.json", {"labels": labels, **out, "seed": SEED, "versions": versions()})


if __name__ == "__main__":
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    NER.mkdir(exist_ok=True)
    make_sentences()
    for name in sys.argv[1:] or TOKENIZERS:
        make(name)
