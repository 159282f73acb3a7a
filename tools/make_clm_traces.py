#!/usr/bin/env python3
"""Makes tests/golden/clm/<decoder>/ with the real packages (torch, transformers, datasets): what run_clm.py does with a tiny
random decoder, on the CPU, fp32, eager attention, dropout 0: 20 updates of 2 batches of 3 samples of 24 tokens, lines with
their ends, then an evaluation of batches of 4.

    make_clm_traces.py [decoder ...]
"""
import math
import sys
import tempfile

import datasets
import tokenizers
import torch
import transformers
from tokenizers import models, pre_tokenizers, trainers
from transformers import Trainer, TrainingArguments, default_data_collator, set_seed

from make_decoder_traces import CONFIGS, DECODERS, random_everywhere
from make_traces import GOLDEN, SEED, versions, write_json

CLM, MLM = GOLDEN / "clm", GOLDEN / "mlm"
BLOCK, STEPS, BATCH, ACCUMULATED, EVAL_BATCH = 24, 20, 3, 2, 4


def byte_level():
    """A byte-level BPE of the words of the texts, as GPT-2 and SmolLM have it, without tokens at the ends."""
    t = tokenizers.Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = tokenizers.decoders.ByteLevel()
    t.train([str(MLM / "train.txt")], trainers.BpeTrainer(
        vocab_size=300, show_progress=False, special_tokens=["<|pad|>", "<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|endoftext|>", bos_token="<|endoftext|>",
                                                pad_token="<|pad|>", model_max_length=64)


def samples(tokenizer):
    """run_clm's, from the two files."""
    def group(examples):
        joined = {k: sum(examples[k], []) for k in examples}
        total = len(joined["input_ids"]) // BLOCK * BLOCK
        rows = {k: [t[i:i + BLOCK] for i in range(0, total, BLOCK)] for k, t in joined.items()}
        rows["labels"] = [list(row) for row in rows["input_ids"]]
        return rows

    with tempfile.TemporaryDirectory() as cache:
        files = {k: str(MLM / f"{k}.txt") for k in ("train", "validation")}
        raw = datasets.load_dataset("text", data_files=files, cache_dir=cache, keep_linebreaks=True)
        data = raw.map(lambda e: tokenizer(e["text"]), batched=True, remove_columns=["text"])
        data = data.map(group, batched=True)
        return {name: datasets.Dataset.from_dict(part[:]) for name, part in data.items()}


def metrics(found):
    best, labels = found.predictions[:, :-1], found.label_ids[:, 1:]
    return {"accuracy": float((best == labels).mean())}


def make(decoder):
    prefix, settings = DECODERS[decoder]
    folder = CLM / decoder
    tokenizer = byte_level()
    tokenizer.save_pretrained(folder)
    config = getattr(transformers, CONFIGS.get(prefix, prefix + "Config"))(**{**settings, "vocab_size": len(tokenizer),
                                                                              "bos_token_id": 1, "eos_token_id": 1})
    set_seed(SEED)
    model = getattr(transformers, f"{prefix}ForCausalLM")._from_config(config, attn_implementation="eager")
    random_everywhere(model, prefix == "Gemma3").save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    data = samples(tokenizer)
    with tempfile.TemporaryDirectory() as out:
        trainer = Trainer(
            model=model, train_dataset=data["train"], eval_dataset=data["validation"], data_collator=default_data_collator,
            compute_metrics=metrics, preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(dim=-1),
            args=TrainingArguments(out, max_steps=STEPS, per_device_train_batch_size=BATCH, learning_rate=1e-3, logging_steps=1,
                                   gradient_accumulation_steps=ACCUMULATED, per_device_eval_batch_size=EVAL_BATCH,
                                   use_cpu=True, save_strategy="no", report_to=[], seed=SEED, disable_tqdm=True))
        trainer.train()
        found = trainer.evaluate()
    steps = [entry for entry in trainer.state.log_history if "loss" in entry]
    write_json(folder / "trace.json", {
        "losses": [entry["loss"] for entry in steps], "grad_norms": [float(entry["grad_norm"]) for entry in steps],
        "eval_loss": found["eval_loss"], "eval_accuracy": found["eval_accuracy"], "perplexity": math.exp(found["eval_loss"]),
        "samples": [len(data["train"]), len(data["validation"])], "first": data["train"][0]["input_ids"], "versions": versions()})


if __name__ == "__main__":
    torch.set_num_threads(2)
    for name in sys.argv[1:] or ["llama", "qwen3"]:
        make(name)
