#!/usr/bin/env python3
"""Makes tests/golden/mlm/{generator,collator,groups}.json with the real packages (torch, transformers, datasets): torch's draws,
masked batches in the order in which Trainer draws them, and run_mlm's ways from texts to samples. What each file holds is
written in tests/golden/README.md.
"""
import os
import pathlib
import tempfile

import datasets
import torch
import torch.utils.data.dataloader as torch_loader
import transformers
from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments

from make_data_goldens import fnv64, generator, pseudo
from make_traces import GOLDEN, VOCABULARY, versions, write_json

MLM = GOLDEN / "mlm"
DATA = pathlib.Path(os.environ.get("LATHE_DATA_DIR", GOLDEN.parents[2] / "shared" / "data"))
SIZES = [(1,), (2,), (7,), (15,), (16,), (17,), (63,), (3, 5), (624,), (625,), (32, 129), (4097,), (100003,)]


# ---- generator ------------------------------------------------------------------------------------------------------

def bernoullis():
    """Of probabilities pseudo(n, 1001, 9) / 1000, and of one probability everywhere."""
    out = []
    for shape in SIZES:
        for seed, p in ((42, None), (43, 0.15), (44, 0.8), (2**40 + 5, 0.5), (45, 0.0), (46, 1.0)):
            n = torch.Size(shape).numel()
            if p is None:
                tensor = (torch.tensor(pseudo(n, 1001, 9), dtype=torch.float32) / 1000).reshape(shape)
            else:
                tensor = torch.full(shape, p)
            drawn = torch.bernoulli(tensor, generator=generator(seed)).flatten().int().tolist()
            out.append({"n": n, "seed": seed, "p": p, "head": drawn[:16], "fnv64": fnv64(drawn)})
    return out


def integers():
    """fnv64 is of the low and the high 32 bits of each number."""
    out = []
    highs = (1, 2, 5, 115, 30522, 50265, 250002, 2**28 - 1, 2**28, 2**31 + 11, 2**32 - 1, 2**32, 2**40 + 1, 2**62 + 3)
    for shape in SIZES:
        for high in highs if shape in ((17,), (625,)) else (30522, 2**32):
            x = torch.randint(high, shape, dtype=torch.long, generator=generator(42)).flatten()
            halves = torch.stack([x & 0xFFFFFFFF, x >> 32], 1).flatten().numpy().astype("<u4").view("<i4")
            out.append({"n": x.numel(), "seed": 42, "high": high, "head": x[:8].tolist(), "fnv64": fnv64(halves)})
    return out


def in_sequence():
    """One kind after the other from one generator; a state is taken in the middle of a pair of normals."""
    g = generator(11)
    out = [{"random63": torch.empty((), dtype=torch.int64).random_(generator=g).item()},
           {"bernoulli": torch.bernoulli(torch.full((40,), 0.3), generator=g).int().tolist()},
           {"normal": torch.empty(3).normal_(generator=g).tolist()},
           {"randint": torch.randint(1000, (5,), generator=g).tolist()},
           {"normal": torch.empty(2).normal_(generator=g).tolist()},
           {"random63": torch.empty((), dtype=torch.int64).random_(generator=g).item()},
           {"randint": torch.randint(2**40, (700,), generator=g).tolist()[-3:]},
           {"bernoulli": torch.bernoulli(torch.full((5, 9), 0.5), generator=g).flatten().int().tolist()}]
    return out


# ---- collator -------------------------------------------------------------------------------------------------------

def tiny_tokenizer(folder, **more):
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=64, **more)


class Recorder(DataCollatorForLanguageModeling):
    """Keeps what it returns: padded ids and labels, and how long each row really is."""

    def torch_call(self, examples):
        batch = super().torch_call(examples)
        EVENTS.append({"ids": batch["input_ids"].tolist(), "labels": batch["labels"].tolist(),
                       "padded": batch["input_ids"].shape[1], "samples": [e["sample"] for e in examples]})
        return batch


EVENTS = []
SAMPLES = 23, 7   # of training, of evaluation


def samples(count, seed):
    """Rows of 3 to 19 tokens between [CLS] and [SEP]; some hold [UNK] or a literal [MASK]."""
    words, lengths = iter(pseudo(40 * count, 112, seed)), pseudo(count, 17, seed + 1)
    unusual = {0: 1, 1: 4}
    return [[2] + [unusual.get(w, w + 3) for _, w in zip(range(n + 3), words)] + [3] for n in lengths]


def row_of(batch, i, length, left):
    pick = (lambda row: row[len(row) - length:]) if left else (lambda row: row[:length])
    return pick(batch["ids"][i]), pick(batch["labels"][i])


def packed(batch, rows, left=False):
    """ids and labels of real tokens only, one row after the other."""
    ids, labels = [], []
    for i, sample in enumerate(batch["samples"]):
        row = row_of(batch, i, len(rows[sample]), left)
        ids += row[0]
        labels += row[1]
    return {"samples": batch["samples"], "padded": batch["padded"], "ids": fnv64(ids), "labels": fnv64(labels),
            "masked": sum(x != -100 for x in labels), "head": [ids[:24], labels[:24]]}


def collated(tokenizer):
    """Batches in sequence from torch's global generator, with each argument that the collator knows."""
    rows = samples(40, 21)
    cases = [{}, {"mlm_probability": 0.4}, {"pad_to_multiple_of": 8},
             {"mlm_probability": 0.5, "mask_replace_prob": 1.0, "random_replace_prob": 0.0},
             {"mlm_probability": 0.5, "mask_replace_prob": 0.3, "random_replace_prob": 0.6},
             {"mlm_probability": 0.5, "mask_replace_prob": 0.5, "random_replace_prob": 0.0}, {"own_mask": True},
             {"left": True}, {"least": 32}, {"mlm_probability": 1.0}, {"mlm_probability": 0.0}]
    out = []
    for case in cases:
        arguments = {k: v for k, v in case.items() if k not in ("own_mask", "left", "least")}
        tokenizer.padding_side = "left" if case.get("left") else "right"
        collator = Recorder(tokenizer=tokenizer, **arguments)
        torch.manual_seed(99)
        EVENTS.clear()
        for begin in range(0, 40, 8):
            examples = []
            for sample in range(begin, begin + 8):
                row, mask = rows[sample], [int(x in (2, 3)) for x in rows[sample]]
                example = {"input_ids": row, "attention_mask": [1] * len(row)}
                if case.get("own_mask"):
                    example["special_tokens_mask"] = mask
                if case.get("least"):
                    example = tokenizer.pad(example, padding="max_length", max_length=case["least"])
                examples.append(Example(example, sample))
            collator(examples)
        out.append({"case": case, "batches": [packed(e, rows, case.get("left", False)) for e in EVENTS]})
    tokenizer.padding_side = "right"
    return {"rows": rows, "seed": 99, "cases": out}


class Example(dict):
    """A sample that knows its number, which is no column."""

    def __init__(self, columns, number):
        super().__init__(columns)
        self.number = number

    def __getitem__(self, key):
        return self.number if key == "sample" else super().__getitem__(key)


class Rows(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return Example({"input_ids": self.rows[i], "attention_mask": [1] * len(self.rows[i])}, i)


class Run(Trainer):
    def evaluate(self, *args, **kwargs):
        EVENTS.append({"evaluate": True})
        metrics = super().evaluate(*args, **kwargs)
        EVENTS.append({"evaluated": True})
        return metrics

    def training_step(self, model, inputs, *args, **kwargs):
        EVENTS.append({"step": True})
        return super().training_step(model, inputs, *args, **kwargs)


def trained(tokenizer):
    """All draws of Trainer runs in order: seeds of iterators, batches of training and evaluation, steps between."""
    seeds = torch_loader._BaseDataLoaderIter.__init__

    def recorded(self, loader):
        seeds(self, loader)
        EVENTS.append({"base_seed": self._base_seed})

    torch_loader._BaseDataLoaderIter.__init__ = recorded
    train, evaluation = samples(SAMPLES[0], 31), samples(SAMPLES[1], 33)
    runs = []
    for case in ({}, {"gradient_accumulation_steps": 2}, {"train_sampling_strategy": "group_by_length"},
                 {"eval_on_start": True, "eval_strategy": "epoch"}):
        config = transformers.BertConfig(vocab_size=len(VOCABULARY), hidden_size=8, num_hidden_layers=1, num_attention_heads=1,
                                         intermediate_size=8, max_position_embeddings=64, hidden_dropout_prob=0.0,
                                         attention_probs_dropout_prob=0.0)
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(**{**dict(
                output_dir=folder, use_cpu=True, seed=42, num_train_epochs=2, per_device_train_batch_size=4,
                per_device_eval_batch_size=3, eval_strategy="steps", eval_steps=2, save_strategy="no", report_to=[],
                remove_unused_columns=False, disable_tqdm=True), **case})
            trainer = Run(model=transformers.BertForMaskedLM(config), args=arguments, train_dataset=Rows(train),
                          eval_dataset=Rows(evaluation), processing_class=tokenizer,
                          data_collator=Recorder(tokenizer=tokenizer))
            EVENTS.clear()
            trainer.train()
        runs.append({"case": case, "events": events(train, evaluation)})
    torch_loader._BaseDataLoaderIter.__init__ = seeds
    return {"seed": 42, "batch": 4, "eval_batch": 3, "train": train, "evaluation": evaluation, "runs": runs}


def events(train, evaluation):
    out, rows = [], train
    for event in EVENTS:
        if "evaluate" in event or "evaluated" in event:
            rows = evaluation if "evaluate" in event else train
        if "ids" in event:
            out.append({"of": "train" if rows is train else "evaluation", **packed(event, rows)})
        else:
            out.append(event)
    return out


# ---- from texts to samples -------------------------------------------------------------------------------------------

# Ends of lines of every kind, separators that are none, blank lines of several kinds, a literal special token, unknown
# characters, a line that is too long, no end at the end.
TEXT = ("\ufeffThe old bridge is small.\r\nThree shippers went north, fastest!\n\n \t\u00a0\u3000\x1c\nIt turns.\rWhere is the"
        "\x0bbank?\x0cin\u2028the\u0085old\n\r\nA lathe turns metal; water runs fast in the river by the old stone city.\n"
        "  who [MASK] the [SEP] of \u4e2d\u6587?\n\u200b\nhow many people\n" + "the old city " * 30 + "\n.\r\r\nwent to the south")


def by_groups(length):
    """What run_mlm does without --line_by_line to a batch of rows that Dataset.map hands over."""
    def group(examples):
        whole = {key: [x for row in rows for x in row] for key, rows in examples.items()}
        end = len(whole["input_ids"]) // length * length
        return {key: [row[i:i + length] for i in range(0, end, length)] for key, row in whole.items()}
    return group


def summary(data):
    ids, special = ([x for row in data[key] for x in row] for key in ("input_ids", "special_tokens_mask"))
    return {"lengths": [len(row) for row in data["input_ids"]][:30], "rows": len(data), "ids": fnv64(ids),
            "special": fnv64(special)}


def grouped():
    """2,345 rows of pseudo tokens: three map batches."""
    lengths, out = pseudo(2345, 40, 51), []
    tokens = iter(pseudo(sum(lengths), 1000, 52))
    rows = [[next(tokens) for _ in range(n)] for n in lengths]
    for length in (1, 7, 32, 128, 8000, 25000):
        special = [[x % 3 == 0 for x in row] for row in rows]
        data = datasets.Dataset.from_dict({"input_ids": rows, "special_tokens_mask": special})
        data = data.cast_column("special_tokens_mask", datasets.Sequence(datasets.Value("int8")))
        out.append({"length": length, **summary(data.map(by_groups(length), batched=True))})
    return out


def of_a_file():
    tokenizer = transformers.AutoTokenizer.from_pretrained(GOLDEN / "tiny_bert" / "classification")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "text.txt"
        path.write_bytes(TEXT.encode())
        data = datasets.load_dataset("text", data_files={"train": str(path)}, cache_dir=folder)["train"]
        lines = data["text"][:]

        def by_line(examples):
            texts = [line for line in examples["text"] if len(line) > 0 and not line.isspace()]
            return tokenizer(texts, padding=False, truncation=True, max_length=16, return_special_tokens_mask=True)

        whole = data.map(lambda e: tokenizer(e["text"], return_special_tokens_mask=True), batched=True,
                         remove_columns=["text"])
        return {"text": TEXT, "lines": lines, "with_words": [x for x in lines if len(x) > 0 and not x.isspace()],
                "by_line": summary(data.map(by_line, batched=True, remove_columns=["text"])),
                "grouped": summary(whole.map(by_groups(24), batched=True))}


def of_wikitext():
    """Both ways over the 2,891 lines of shared/data, and all masks of one epoch of batches of 32 in order."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(DATA / "all-MiniLM-L6-v2")
    path = DATA / "text/wikitext-2-raw/wiki.test.noblank.txt"
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        data = datasets.load_dataset("text", data_files={"train": str(path)}, cache_dir=folder)["train"]
        more = dict(batched=True, remove_columns=["text"])
        whole = data.map(lambda e: tokenizer(e["text"], return_special_tokens_mask=True), **more)
        by_line = data.map(lambda e: tokenizer(e["text"], truncation=True, max_length=128, return_special_tokens_mask=True),
                           **more)
        for way, rows in (("grouped", whole.map(by_groups(512), batched=True)), ("by_line", by_line)):
            collator = Recorder(tokenizer=tokenizer)
            torch.manual_seed(7)
            EVENTS.clear()
            ids, labels = [], []
            rows = rows.remove_columns("special_tokens_mask")[:]
            examples = [Example({k: rows[k][i] for k in rows}, i) for i in range(len(rows["input_ids"]))]
            for begin in range(0, len(examples), 32):
                collator(examples[begin:begin + 32])
                batch = EVENTS.pop()
                for i, sample in enumerate(batch["samples"]):
                    row = row_of(batch, i, len(examples[sample]["input_ids"]), False)
                    ids, labels = ids + row[0], labels + row[1]
            out[way] = {"rows": len(examples), "ids": fnv64([x for row in rows["input_ids"] for x in row]),
                        "masked_ids": fnv64(ids), "labels": fnv64(labels), "masked": sum(x != -100 for x in labels)}
    return out


def splits():
    """[rows, percent, where the training rows begin]"""
    out = []
    for rows in (0, 1, 9, 10, 11, 30, 33, 50, 90, 99, 100, 101, 110, 250, 1000, 2891, 36718, 123457):
        for percent in (0, 1, 5, 7, 10, 33, 50, 99, 100):
            borders = [datasets.ReadInstruction.from_spec(f"train[{x}]").to_absolute({"train": rows})[0]
                       for x in (f":{percent}%", f"{percent}%:")]
            assert borders[0].from_ == 0 and borders[1].to == rows and borders[0].to == borders[1].from_
            out.append([rows, percent, borders[0].to])
    return out


if __name__ == "__main__":
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(2)
    MLM.mkdir(exist_ok=True)
    write_json(MLM / "generator.json", {"bernoulli": bernoullis(), "randint": integers(), "in_sequence": in_sequence(),
                                        "versions": versions()})
    with tempfile.TemporaryDirectory() as name:
        tiny = tiny_tokenizer(pathlib.Path(name))
        write_json(MLM / "collator.json", {"collated": collated(tiny), "trained": trained(tiny), "versions": versions()})
    write_json(MLM / "groups.json", {"grouped": grouped(), "file": of_a_file(), "wikitext": of_wikitext(), "splits": splits(),
                                     "versions": {**versions(), "datasets": datasets.__version__}})
