#!/usr/bin/env python3
"""Makes tests/golden/swag/ with the real packages (torch, transformers): what run_swag does with a tiny random model of each
family, on the CPU, fp32, eager attention, dropout 0, a new head on a base. What each file holds is written in
tests/golden/README.md. Run tools/make_ner_traces.py first: its tokenizers and models are the bases.

    make_swag_traces.py [family ...]
"""
import csv
import sys
import tempfile

import torch
import transformers
from transformers import (AutoModelForMultipleChoice, AutoTokenizer, DataCollatorForMultipleChoice, TrainingArguments,
                          set_seed)

from make_ner_traces import BATCH, EVAL_BATCH, GOLDEN, MLM, NER, STEPS, TOKENIZERS, Run
from make_traces import SEED, WORDS, versions, write_json

SWAG = GOLDEN / "swag"
ENDINGS = [f"ending{i}" for i in range(4)]
LENGTH = 24


def make_rows():
    """Tables of SWAG's columns; some texts are longer than a sample."""
    draw = torch.Generator().manual_seed(6)
    number = lambda below: int(torch.randint(below, (1,), generator=draw))
    words = lambda most: " ".join(WORDS[number(len(WORDS))] for _ in range(number(most) + 1))
    for name, count in (("train", 48), ("dev", 11)):
        with open(SWAG / f"{name}.csv", "w", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["sent1", "sent2", *ENDINGS, "label"])
            for _ in range(count):
                table.writerow([words(14).capitalize() + ".", words(3), *(words(9) + "," for _ in ENDINGS), number(4)])


def samples(tokenizer):
    """run_swag's preprocess_function."""
    out = {}
    for name in ("train", "dev"):
        out[name] = []
        for row in csv.DictReader(open(SWAG / f"{name}.csv")):
            e = tokenizer([row["sent1"]] * 4, [f"{row['sent2']} {row[end]}" for end in ENDINGS], truncation=True,
                          max_length=LENGTH, padding=False)
            out[name].append({**e, "label": int(row["label"])})
    return out


def make(family):
    tokenizer = AutoTokenizer.from_pretrained(MLM / TOKENIZERS[family], use_fast=True)
    folder = NER / family if (NER / family).is_dir() else MLM / family
    data = samples(tokenizer)
    with tempfile.TemporaryDirectory() as output:
        # With the usual epsilon Adam makes whole steps of gradients that are only rounding: those of biases that move all
        # scores of a sample alike.
        arguments = TrainingArguments(
            output_dir=output, use_cpu=True, seed=SEED, max_steps=STEPS, per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=EVAL_BATCH, save_strategy="no", learning_rate=1e-3, weight_decay=0.01,
            adam_epsilon=1e-5, report_to=[], disable_tqdm=True)
        set_seed(SEED)
        # A head of larger weights: gradients that are not mostly rounding.
        config = transformers.AutoConfig.from_pretrained(folder, initializer_range=0.2)
        if family == "electra":
            config.summary_last_dropout = 0.0
        model, info = AutoModelForMultipleChoice.from_pretrained(folder, config=config, attn_implementation="eager",
                                                                 output_loading_info=True)
        new = {name: model.get_parameter(name).flatten()[:8].tolist() for name in sorted(info["missing_keys"])}
        trainer = Run(model=model, args=arguments, train_dataset=data["train"], eval_dataset=data["dev"],
                      processing_class=tokenizer, data_collator=DataCollatorForMultipleChoice(tokenizer))
        trainer.losses, trainer.norms, trainer.rates = [], [], []
        trainer.train()
        evaluation = trainer.predict(data["dev"])
    write_json(SWAG / f"{family}.json", {
        "losses": trainer.losses, "grad_norms": trainer.norms, "new_weights": new,
        "parameters": [name for name, _ in model.named_parameters()], "eval_loss": evaluation.metrics["test_loss"],
        "logits": evaluation.predictions.tolist(), "samples": [s["input_ids"] for s in data["train"]], "seed": SEED,
        "versions": versions()})


if __name__ == "__main__":
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    SWAG.mkdir(exist_ok=True)
    make_rows()
    for name in sys.argv[1:] or TOKENIZERS:
        make(name)
