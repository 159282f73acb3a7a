#!/usr/bin/env python3
"""Trains every family and head for 50 updates and prints the SHA-256 of the weights, so that two builds can be compared.

    weights_digest.py BUILD_DIR [--device cpu|mlx|cuda] [--only TEXT] > before.txt

A line for each case: its name, then the digest; a case that ends with an error has the error's last line instead. The models
are the tiny ones of tests/golden, with dropout; the data are made here. On the CPU each case runs at every instruction set
that the machine has (LATHE_ISA). Two builds that give the same lines compute the same bits: `diff before.txt after.txt`.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORDS = ("the old bridge is small who opened it turns what runs in engine of new red ship where bank a metal water over "
         "under river stone").split()
HEADS = ["classification", "regression", "multi_label", "question_answering", "mean_pooling"]
LEVELS = ["portable", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "avx512_bf16", "amx", "neon", "neon_dot", "neon_bf16"]
RESUME = ["--save_strategy", "steps", "--save_steps", "25"]     # and once more from the update in the middle
ANSWERS = ["--do_eval"]                                         # the loss of the evaluation is digested instead
WAYS = {   # of tiny_bert/classification
    "bf16": ["--bf16"],
    "fp16": ["--fp16"],
    "bf16_checkpointing": ["--bf16", "--gradient_checkpointing"],
    "checkpointing": ["--gradient_checkpointing"],
    "accumulation": ["--gradient_accumulation_steps", "2", "--per_device_train_batch_size", "4"],
    "accumulation_short_last": ["--gradient_accumulation_steps", "5", "--per_device_train_batch_size", "8"],
    "frozen": ["--freeze_base_model"],
    "frozen_bf16": ["--freeze_base_model", "--bf16"],
    "frozen_fp16": ["--freeze_base_model", "--fp16"],
    "head_rate": ["--head_learning_rate", "1e-2"],
    "by_length": ["--train_sampling_strategy", "group_by_length"],
    "batch_rebalance": ["--train_sampling_strategy", "batch_rebalance"],
    "fp8": ["--fp8"],
    "resume": RESUME,
    "resume_accumulation_bf16": [*RESUME, "--gradient_accumulation_steps", "2", "--bf16"],
    "resume_frozen": [*RESUME, "--freeze_base_model"],
    "int8_answers": ["--int8", *ANSWERS],
    "int8_answers_frozen_bf16": ["--int8", "--bf16", "--freeze_base_model", *ANSWERS],
    "bf16_answers": ["--bf16_full_eval", *ANSWERS],
    "sgd": ["--optim", "sgd"],
    "adafactor": ["--optim", "adafactor"],
    "smoothing": ["--label_smoothing_factor", "0.1"],
}


def write_model(golden, folder):
    """The golden model with dropout and a tokenizer of words, whose special tokens have the ids that its config says."""
    shutil.copytree(golden, folder)
    config = json.loads((folder / "config.json").read_text())
    for key in ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout", "mlp_dropout",
                "embedding_dropout", "classifier_dropout", "seq_classif_dropout", "qa_dropout", "summary_last_dropout"):
        if key in config:
            config[key] = 0.1
    (folder / "config.json").write_text(json.dumps(config))
    vocabulary = [f"[unused{i}]" for i in range(config["vocab_size"])]
    special = {name: config[f"{name}_token_id"] for name in ("pad", "cls", "sep", "mask", "unk")
               if isinstance(config.get(f"{name}_token_id"), int)}
    for name in ("pad", "unk", "cls", "sep", "mask"):
        at = special.setdefault(name, next(i for i in range(9) if i not in special.values()))
        vocabulary[at] = f"[{name.upper()}]"
    free = [i for i in range(len(vocabulary)) if i not in special.values()]
    for i, word in zip(free, WORDS):
        vocabulary[i] = word
    for name in ("tokenizer.json", "vocab.txt"):
        (folder / name).unlink(missing_ok=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 40,
         **{f"{name}_token": f"[{name.upper()}]" for name in special}}))


def write_data(folder):
    draw = random.Random(7)
    def text():
        return " ".join(draw.choice(WORDS) for _ in range(draw.randint(3, 12)))
    def rows(name, label):
        with open(folder / f"{name}.json", "w", encoding="utf-8") as out:
            for i in range(96):
                out.write(json.dumps({"sentence1": text(), "label": label(i)}) + "\n")
    rows("classification", lambda i: ["person", "thing", "place"][i % 3])
    rows("regression", lambda i: i % 7 / 2 + 0.25)
    rows("multi_label", lambda i: [name for bit, name in enumerate("abcd") if (i >> bit) & 1])
    with open(folder / "question_answering.json", "w", encoding="utf-8") as out:
        for i in range(96):
            words = [draw.choice(WORDS) for _ in range(24)]
            start = draw.randrange(20)
            answer = " ".join(words[start:start + 3])
            out.write(json.dumps({"id": str(i), "question": text(), "context": " ".join(words), "answers":
                                  {"text": [answer], "answer_start": [len(" ".join(words[:start] + [""]))]}}) + "\n")


def digest_of(command, environment, folder):
    commands = [command]
    if "--save_steps" in command:
        commands.append([*command, "--resume_from_checkpoint", folder / "checkpoint-25"])
    for words in commands:
        (folder / "model.safetensors").unlink(missing_ok=True)
        ended = subprocess.run([str(word) for word in words], env=environment, capture_output=True, text=True, timeout=600)
        if ended.returncode != 0:
            return f"error: {(ended.stderr.strip().splitlines() or ['nothing'])[-1]}"
    if "--do_eval" in command:
        loss = json.loads((folder / "eval_results.json").read_text())["eval_loss"]
        return hashlib.sha256(repr(loss).encode()).hexdigest()
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def cases():
    for golden in sorted((ROOT / "tests" / "golden").glob("tiny_*/*/")):
        if golden.name in HEADS:
            yield golden, f"{golden.parent.name}/{golden.name}", []
    bert = ROOT / "tests" / "golden" / "tiny_bert"
    for way, flags in WAYS.items():
        yield bert / "classification", f"tiny_bert/classification {way}", flags
    yield bert / "question_answering", "tiny_bert/question_answering bf16", ["--bf16"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    args = parser.parse_args()
    program = args.build.resolve() / "lathe"
    levels = [""]
    if args.device == "cpu":
        levels = [level for level in LEVELS if subprocess.run(
            [program.with_name("lathe"), "doctor", "--device", "cpu"], env=dict(os.environ, LATHE_ISA=level),
            capture_output=True).returncode == 0]
    with tempfile.TemporaryDirectory() as temp:
        temp = pathlib.Path(temp)
        write_data(temp)
        for golden, name, flags in cases():
            model = temp / f"{golden.parent.name}-{golden.name}"
            if not model.exists():
                write_model(golden, model)
            head = golden.name if golden.name != "mean_pooling" else "classification"
            for level in levels:
                label = f"{name} {args.device} {level}".strip()
                if args.only not in label:
                    continue
                out = temp / "out"
                shutil.rmtree(out, ignore_errors=True)
                command = [program, "qa" if head == "question_answering" else "glue", "--model_name_or_path", model,
                           "--train_file", temp / f"{head}.json", "--do_train", "--max_steps", "50", "--max_seq_length", "40",
                           *(["--doc_stride", "2"] if head == "question_answering" else ["--ignore_mismatched_sizes"]),
                           "--per_device_train_batch_size", "8", "--learning_rate", "1e-3", *([] if "--save_steps" in flags else ["--save_strategy", "no"]),
                           "--output_dir", out, "--device", args.device, *flags]
                if "--do_eval" in flags:
                    command += ["--validation_file", temp / f"{head}.json"]
                environment = dict(os.environ, LATHE_ISA=level) if level else dict(os.environ)
                print(label, digest_of(command, environment, out), flush=True)


if __name__ == "__main__":
    sys.exit(main())
