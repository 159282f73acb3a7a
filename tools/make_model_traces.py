#!/usr/bin/env python3
"""Makes tests/golden/tiny_<family>/<head>/ with the real packages (torch, transformers): on the CPU, fp32, eager attention,
dropout 0.  What each file holds is written in tests/golden/README.md.

    make_model_traces.py [family ...]
"""
import sys
import tempfile

import safetensors.torch
import torch
import transformers
from transformers import Trainer, set_seed

from make_traces import GOLDEN, SEED, masked_lm_labels, versions, write_json

STEPS = 20
SIZES = dict(vocab_size=48, max_position_embeddings=24, initializer_range=0.15)
BERT_SIZES = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
                  hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout=0.0, **SIZES)
DISTIL_SIZES = dict(dim=16, n_layers=2, n_heads=2, hidden_dim=32, dropout=0.0, attention_dropout=0.0, qa_dropout=0.0,
                    seq_classif_dropout=0.0, **SIZES)
ROBERTA = dict(type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1, **BERT_SIZES)
# Rows of up to 20 tokens, of which a query sees three on either side in the second and third layer.
MODERN = dict(hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=24, local_attention=6,
              pad_token_id=0, bos_token_id=2, cls_token_id=2, eos_token_id=3, sep_token_id=3, **SIZES)
# Prefix of transformers' classes, their configuration, special tokens at the front, between and after texts, padding.
FAMILIES = {
    "roberta": ("Roberta", ROBERTA, [0], [2, 2], [2], 1),
    "xlm_roberta": ("XLMRoberta", ROBERTA, [0], [2, 2], [2], 1),
    "camembert": ("Camembert", ROBERTA, [0], [2, 2], [2], 1),
    "distilbert": ("DistilBert", DISTIL_SIZES, [2], [3], [3], 0),
    "electra": ("Electra", dict(embedding_size=8, **BERT_SIZES), [2], [3], [3], 0),
    "modernbert": ("ModernBert", MODERN, [2], [3], [3], 0),
}
# Folder, end of transformers' class, labels, what else the configuration says.
HEADS = {
    "classification": ("SequenceClassification", 3, {}),
    "question_answering": ("QuestionAnswering", 2, {}),
}
MODERN_HEADS = {
    **HEADS,
    "mean_pooling": ("SequenceClassification", 3, dict(classifier_pooling="mean", norm_bias=True, attention_bias=True,
                                                       mlp_bias=True, classifier_bias=True)),
    "masked_lm": ("MaskedLM", 2, {}),
}
LENGTHS = [(5, 4), (7, 0), (2, 9), (4, 0), (11, 5), (3, 6)]
QUESTIONS = [(3, 8), (5, 6), (4, 7)]   # equal in sum: a packed softmax over positions knows no padded ones


def make_batch(lengths, front, between, behind, pad, types):
    generator = torch.Generator().manual_seed(3)
    rows, kinds = [], []
    for first, second in lengths:
        words = torch.randint(5, SIZES["vocab_size"], (first + second,), generator=generator).tolist()
        row = front + words[:first] + (between + words[first:] if second else []) + behind
        begin = len(front) + first + (1 if second else 2)
        rows.append(row)
        kinds.append([int(second > 0 and i >= begin) for i in range(len(row))])
    width = max(map(len, rows))
    fill = lambda lists, value: torch.tensor([x + [value] * (width - len(x)) for x in lists])
    batch = {"input_ids": fill(rows, pad), "attention_mask": fill([[1] * len(r) for r in rows], 0)}
    if types:
        batch["token_type_ids"] = fill(kinds, 0)
    return batch


def random_everywhere(model, head):
    """Zero biases and unit norms would hide a swapped or forgotten one; see make_traces.tiny_model for the factor."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                start = 1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0
                p.copy_(start + 0.1 * torch.randn(p.shape, generator=generator))
            if head == "question_answering" and "_embeddings." in name:
                p.mul_(0.1)
    return model.train()


def train(model, batch):
    """As make_traces.train_ten_steps, over STEPS."""
    decayed = Trainer.get_decay_parameter_names(None, model)
    groups = [{"params": [p for n, p in model.named_parameters() if (n in decayed) == decays], "weight_decay": weight}
              for decays, weight in ((True, 0.01), (False, 0.0))]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.999), eps=1e-8)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 0, STEPS)
    trace = {"losses": [], "grad_norms": [], "learning_rates": []}
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        trace["grad_norms"].append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        trace["losses"].append(loss.item())
        trace["learning_rates"].append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return trace, sorted(name for name, _ in model.named_parameters() if name in decayed)  # a tied one has two names


def make(family, head):
    prefix, settings, front, between, behind, pad = FAMILIES[family]
    kind, labels, more = MODERN_HEADS[head]
    config = getattr(transformers, prefix + "Config")(num_labels=labels, **settings, **more)
    types = getattr(config, "type_vocab_size", 1) > 1
    batch = make_batch(QUESTIONS if head == "question_answering" else LENGTHS, front, between, behind, pad, types)
    if head == "masked_lm":
        batch["labels"] = masked_lm_labels(batch)
    elif head != "question_answering":
        batch["labels"] = torch.tensor([0, 1, 2, 2, 1, 0])
    else:
        batch.update(start_positions=torch.tensor([6, 8, 0]), end_positions=torch.tensor([7, 10, 0]))
    folder = GOLDEN / f"tiny_{family}" / head
    folder.mkdir(parents=True, exist_ok=True)
    set_seed(SEED)
    model = getattr(transformers, f"{prefix}For{kind}")._from_config(config, attn_implementation="eager")
    random_everywhere(model, head).save_pretrained(folder)
    out = model(**batch)
    out.loss.backward()
    expected = {"loss": out.loss.detach().reshape(1)}
    for key in ("logits", "start_logits", "end_logits"):
        if key in out:
            expected[key] = out[key].detach().contiguous()
    for key, p in model.named_parameters():
        expected["grad." + key] = p.grad.clone()
    batch.setdefault("token_type_ids", torch.zeros_like(batch["input_ids"]))
    safetensors.torch.save_file(batch, folder / "batch.safetensors")
    safetensors.torch.save_file(expected, folder / "expected.safetensors")
    if not types:
        del batch["token_type_ids"]
    model.zero_grad()
    names = [name for name, _ in model.named_parameters()]
    trace, decayed = train(model, batch)
    write_json(folder / "trace.json", {**trace, "parameters": names, "decayed": decayed, "versions": versions()})


def new_head(family):
    """The head that transformers gives a model whose checkpoint has none."""
    prefix, settings = FAMILIES[family][:2]
    config = getattr(transformers, prefix + "Config")(num_labels=3, **settings)
    with tempfile.TemporaryDirectory() as base:
        getattr(transformers, prefix + "Model")(config).save_pretrained(base)
        set_seed(SEED)
        model = getattr(transformers, prefix + "ForSequenceClassification").from_pretrained(base, num_labels=3)
    head = {name: p.flatten().tolist() for name, p in model.named_parameters()
            if not name.startswith(model.base_model_prefix + ".") and p.dim() > 1}
    write_json(GOLDEN / f"tiny_{family}" / "new_head.json", {**head, "seed": SEED, "versions": versions()})


if __name__ == "__main__":
    torch.set_num_threads(2)
    for name in sys.argv[1:] or FAMILIES:
        for kind in MODERN_HEADS if name == "modernbert" else HEADS:
            make(name, kind)
        if name == "modernbert":
            new_head(name)
