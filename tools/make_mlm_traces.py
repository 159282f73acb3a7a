#!/usr/bin/env python3
"""Makes tests/golden/mlm/<family>/ with the real packages (torch, transformers, datasets): what run_mlm does with a tiny random
model of each family, on the CPU, fp32, eager attention, dropout 0. What each file holds is written in tests/golden/README.md.

    make_mlm_traces.py [family ...]
"""
import math
import pathlib
import sys
import tempfile

import datasets
import safetensors.torch
import tokenizers
import torch
import transformers
from tokenizers import AddedToken, models, pre_tokenizers, processors, trainers
from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments, set_seed

from make_data_goldens import pseudo
from make_mlm_goldens import MLM, by_groups
from make_model_traces import BERT_SIZES, DISTIL_SIZES, MODERN, ROBERTA, random_everywhere
from make_traces import SEED, VOCABULARY, WORDS, versions, write_json

STEPS, BATCH, EVAL_BATCH, EVAL_STEPS = 20, 4, 3, 8
LENGTH = {"lines": 20, "groups": 16}
POSITIONS = dict(max_position_embeddings=32)
NAMES = {"bert": "Bert", "roberta": "Roberta", "xlm_roberta": "XLMRoberta", "distilbert": "DistilBert",
         "modernbert": "ModernBert"}
SETTINGS = {"bert": BERT_SIZES, "distilbert": DISTIL_SIZES, "roberta": ROBERTA, "xlm_roberta": ROBERTA, "modernbert": MODERN}
# One mask, two, one next to punctuation and a special token as text.
SENTENCES = ["the old {} is small.", "Who opened the {} of the {}?", "it turns, {}! [SEP] north </s>"]


# ---- texts and tokenizers --------------------------------------------------------------------------------------------

def make_texts():
    """Lines of 2 to 23 words, a blank one here and there; some are longer than a sample."""
    numbers = iter(pseudo(4000, len(WORDS), 61))
    for name, lines in (("train", 72), ("validation", 13)):
        text = []
        for i in range(lines):
            words = [WORDS[next(numbers)] for _ in range(next(numbers) % 22 + 2)]
            text += ["" if i % 12 == 7 else " ".join(words).capitalize() + (".", "!", "", " -?")[i % 4]]
        (MLM / f"{name}.txt").write_text("\n".join(text) + "\n")


def with_word_pieces(name, folder):
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return getattr(transformers, name)(vocab=str(folder / "vocab.txt"), model_max_length=64)


def byte_level(special, mask, size=300):
    """A byte-level BPE of the words of the texts."""
    t = tokenizers.Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = tokenizers.decoders.ByteLevel()
    t.train([str(MLM / "train.txt")], trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=special,
                                                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens([AddedToken(mask, lstrip=True, normalized=False)])
    return t


def roberta_tokenizer():
    t = byte_level(["<s>", "<pad>", "</s>", "<unk>"], "<mask>")
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=t, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", unk_token="<unk>",
        pad_token="<pad>", mask_token=AddedToken("<mask>", lstrip=True, normalized=False), model_max_length=64,
        model_input_names=["input_ids", "attention_mask"])


def modernbert_tokenizer():
    t = byte_level(["[PAD]", "[UNK]", "[CLS]", "[SEP]"], "[MASK]")
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]",
                                                     special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=t, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]",
        mask_token=AddedToken("[MASK]", lstrip=True, normalized=False), model_max_length=64,
        model_input_names=["input_ids", "attention_mask"])


def xlm_roberta_tokenizer():
    """Unigram: words with the mark of a blank, then letters, less likely."""
    letters = sorted({c for w in WORDS for c in w + w.capitalize()} | set(".!-?,"))
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [("\u2581" + w, -3 - i / 16) for i, w in enumerate(dict.fromkeys(WORDS)) if len(w) > 1]
    pieces += [(c, -9 - i / 32) for i, c in enumerate(["\u2581", *letters])]
    t = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=3))
    t.normalizer = tokenizers.normalizers.Replace(tokenizers.Regex(" {2,}"), " ")
    t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
    t.decoder = tokenizers.decoders.Metaspace(replacement="\u2581", prepend_scheme="always")
    t.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, normalized=False)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
                                                     special_tokens=[("<s>", 0), ("</s>", 2)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=t, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", unk_token="<unk>",
        pad_token="<pad>", mask_token=AddedToken("<mask>", lstrip=True, normalized=False), model_max_length=64,
        model_input_names=["input_ids", "attention_mask"])


TOKENIZERS = {"bert": lambda folder: with_word_pieces("BertTokenizerFast", folder),
              "distilbert": lambda folder: with_word_pieces("DistilBertTokenizerFast", folder),
              "roberta": lambda _: roberta_tokenizer(), "xlm_roberta": lambda _: xlm_roberta_tokenizer(),
              "modernbert": lambda _: modernbert_tokenizer()}


def samples(tokenizer, way):
    """run_mlm's, from the two files; way: lines or groups."""
    with tempfile.TemporaryDirectory() as cache:
        files = {k: str(MLM / f"{k}.txt") for k in ("train", "validation")}
        raw = datasets.load_dataset("text", data_files=files, cache_dir=cache)

        def tokenize(examples):
            texts = examples["text"]
            if way == "lines":
                texts = [x for x in texts if len(x) > 0 and not x.isspace()]
            more = {} if way == "groups" else dict(padding=False, truncation=True, max_length=LENGTH[way])
            return tokenizer(texts, return_special_tokens_mask=True, **more)

        data = raw.map(tokenize, batched=True, remove_columns=["text"])
        if way == "groups":
            data = data.map(by_groups(LENGTH[way]), batched=True)
        return {name: datasets.Dataset.from_dict(part[:]) for name, part in data.items()}


# ---- the run ---------------------------------------------------------------------------------------------------------

def plain(batch):
    """Rows without padding; labels as [place among the tokens of all rows, label]."""
    rows = [ids[mask.bool()].tolist() for ids, mask in zip(batch["input_ids"], batch["attention_mask"])]
    labels = batch["labels"][batch["attention_mask"].bool()].tolist()
    return {"ids": rows, "labels": [[i, x] for i, x in enumerate(labels) if x != -100]}


class Run(Trainer):
    """Keeps every batch with its loss, norms before clipping, and evaluations."""

    def start(self):
        self.steps, self.norms, self.rates, self.evaluations = [], [], [], []
        return self

    def training_step(self, model, inputs, *args, **kwargs):
        batch = plain(inputs)
        loss = super().training_step(model, inputs, *args, **kwargs)
        self.steps.append({"loss": loss.item(), **batch})
        return loss

    def _clip_grad_norm(self, model):
        norm = super()._clip_grad_norm(model)
        self.norms.append(norm.item())
        self.rates.append(self.lr_scheduler.get_last_lr()[0])
        return norm

    def evaluate(self, *args, **kwargs):
        self.evaluations.append({"step": self.state.global_step, "batches": []})
        metrics = super().evaluate(*args, **kwargs)
        loss = metrics["eval_loss"]
        self.evaluations[-1].update(loss=loss, accuracy=metrics["eval_accuracy"], perplexity=math.exp(loss))
        return metrics

    def prediction_step(self, model, inputs, *args, **kwargs):
        batch = plain(inputs)
        out = super().prediction_step(model, inputs, *args, **kwargs)
        self.evaluations[-1]["batches"].append({"loss": out[0].item(), **batch})
        return out


def accuracy(prediction):
    labels, found = prediction.label_ids.reshape(-1), prediction.predictions.reshape(-1)
    return {"accuracy": float((found == labels)[labels != -100].mean())}


def train(model, tokenizer, data, **more):
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(**{**dict(
            output_dir=folder, use_cpu=True, seed=SEED, max_steps=STEPS, per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=EVAL_BATCH, eval_strategy="steps", eval_steps=EVAL_STEPS, save_strategy="no",
            learning_rate=1e-3, weight_decay=0.01, report_to=[], disable_tqdm=True), **more})
        trainer = Run(model=model, args=arguments, train_dataset=data["train"], eval_dataset=data["validation"],
                      processing_class=tokenizer, data_collator=DataCollatorForLanguageModeling(tokenizer=tokenizer),
                      compute_metrics=accuracy, preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(dim=-1))
        trainer.start().train()
        trainer.evaluate()
    return trainer


def write_trace(path, trainer):
    """A line for each step and each evaluation."""
    lines = {f"step {i + 1}": step for i, step in enumerate(trainer.steps)}
    lines |= {f"evaluation {i + 1}": e for i, e in enumerate(trainer.evaluations)}
    write_json(path, {"losses": [s["loss"] for s in trainer.steps], "grad_norms": trainer.norms,
                      "learning_rates": trainer.rates, **lines, "versions": {**versions(), "datasets": datasets.__version__}})


def fill_mask(folder, model, tokenizer):
    """What the pipeline finds, and the logits that it finds it in, [masks of all sentences, tokens]."""
    pipe = transformers.pipeline("fill-mask", model=model, tokenizer=tokenizer, device="cpu")
    sentences, logits = [], []
    for sentence in SENTENCES:
        text = sentence.replace("{}", tokenizer.mask_token)
        encoded = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            out = model(**encoded).logits[0]
        logits.append(out[encoded["input_ids"][0] == tokenizer.mask_token_id])
        sentences.append({"text": text, "ids": encoded["input_ids"][0].tolist(), "fills": pipe(text, top_k=5)})
    safetensors.torch.save_file({"logits": torch.cat(logits)}, folder / "fill_mask_logits.safetensors")
    return sentences


def beginnings(model, only=lambda name: True):
    return {name: p.flatten()[:4].tolist() for name, p in model.named_parameters() if p.dim() > 1 and only(name)}


def new_weights(config, family):
    """The first four values of each matrix without a checkpoint, and of the head where the checkpoint has only a base."""
    head = getattr(transformers, NAMES[family] + "ForMaskedLM")
    set_seed(SEED)
    scratch = beginnings(transformers.AutoModelForMaskedLM.from_config(config))
    with tempfile.TemporaryDirectory() as base:
        getattr(transformers, NAMES[family] + "Model")(config).save_pretrained(base)
        set_seed(SEED)
        model = head.from_pretrained(base)
    tied = {*model.all_tied_weights_keys, *model.all_tied_weights_keys.values()}
    return {"scratch": scratch, "new_head": beginnings(
        model, lambda name: not name.startswith(model.base_model_prefix + ".") and name not in tied)}


def make(family):
    folder = MLM / family
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = TOKENIZERS[family](folder)
    tokenizer.save_pretrained(folder)
    config = getattr(transformers, NAMES[family] + "Config")(**{**SETTINGS[family], **POSITIONS, "vocab_size": len(tokenizer)})

    def fresh():
        set_seed(SEED)
        model = getattr(transformers, NAMES[family] + "ForMaskedLM")._from_config(config, attn_implementation="eager")
        return random_everywhere(model, "masked_lm")

    model = fresh()
    model.save_pretrained(folder)
    decayed = Trainer.get_decay_parameter_names(None, model)
    with safetensors.safe_open(folder / "model.safetensors", "pt") as file:
        keys = list(file.keys())
    names = [name for name, _ in model.named_parameters()]
    write_json(folder / "model_facts.json", {
        "parameters": names, "shapes": [list(p.shape) for p in model.parameters()],
        "decayed": sorted(set(names) & set(decayed)), "tied": model.all_tied_weights_keys, "checkpoint_keys": sorted(keys),
        "fill_mask": fill_mask(folder, fresh().eval(), tokenizer), **new_weights(config, family), "seed": SEED,
        "versions": versions()})
    for way in LENGTH:
        write_trace(folder / f"{way}.json", train(fresh(), tokenizer, samples(tokenizer, way)))
    if family in ("bert", "modernbert"):
        trainer = train(fresh(), tokenizer, samples(tokenizer, "lines"), gradient_accumulation_steps=3, max_steps=6,
                        eval_strategy="no")
        write_trace(folder / "accumulated.json", trainer)


if __name__ == "__main__":
    transformers.utils.logging.set_verbosity_error()
    datasets.disable_progress_bars()
    torch.set_num_threads(2)
    MLM.mkdir(exist_ok=True)
    make_texts()
    for name in sys.argv[1:] or NAMES:
        make(name)
