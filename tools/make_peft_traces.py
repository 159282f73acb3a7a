#!/usr/bin/env python3
"""Makes tests/golden/peft/<family>/ with the real packages (torch, transformers, peft) from tests/golden/tiny_<family>/: on
the CPU, fp32, dropout 0.  What each file holds is written in tests/golden/README.md.

    make_peft_traces.py
"""
import json

import peft
import safetensors.torch
import torch
import transformers
from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification, Trainer, set_seed

from make_traces import GOLDEN, versions, write_json

STEPS, SEED = 50, 42
# Target modules; None: peft's default for the family.
FAMILIES = {"bert": None, "roberta": None, "distilbert": ["q_lin", "v_lin", "lin1"]}
SETTINGS = dict(r=4, lora_alpha=8)


def adapted(kind, task, family):
    """As a script does it: set_seed, the model, its adapter."""
    set_seed(SEED)
    labels = 2 if task == "QUESTION_ANS" else 3
    model = kind.from_pretrained(GOLDEN / f"tiny_{family}" / "classification", attn_implementation="eager",
                                 num_labels=labels)
    return peft.get_peft_model(model, peft.LoraConfig(task_type=task, target_modules=FAMILIES[family], **SETTINGS))


def tensors(model):
    return {k: v.detach().clone().contiguous() for k, v in peft.get_peft_model_state_dict(model).items()}


def train(model, batch):
    decayed = Trainer.get_decay_parameter_names(None, model)
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    groups = [{"params": [p for n, p in named if (n in decayed) == decays], "weight_decay": weight}
              for decays, weight in ((True, 0.01), (False, 0.0))]
    optimizer = torch.optim.AdamW(groups, lr=5e-3)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 0, STEPS)
    trace = {"losses": [], "grad_norms": [], "learning_rates": []}
    model.train()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        trace["grad_norms"].append(torch.nn.utils.clip_grad_norm_([p for _, p in named], 1.0).item())
        trace["losses"].append(loss.item())
        trace["learning_rates"].append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return trace


def make(family):
    source, folder = GOLDEN / f"tiny_{family}" / "classification", GOLDEN / "peft" / family
    folder.mkdir(parents=True, exist_ok=True)
    question = adapted(AutoModelForQuestionAnswering, "QUESTION_ANS", family)
    safetensors.torch.save_file(tensors(question), folder / "new_head.safetensors")
    model = adapted(AutoModelForSequenceClassification, "SEQ_CLS", family)
    safetensors.torch.save_file(tensors(model), folder / "start.safetensors")
    batch = safetensors.torch.load_file(source / "batch.safetensors")
    if family != "bert":
        batch.pop("token_type_ids", None)
    trace = train(model, batch)
    model.save_pretrained(folder / "adapter")
    (folder / "adapter" / "README.md").unlink()
    path = folder / "adapter" / "adapter_config.json"
    said = json.loads(path.read_text())
    said["base_model_name_or_path"] = f"tests/golden/tiny_{family}/classification"
    for names in ("target_modules", "modules_to_save"):
        said[names] = sorted(said[names])  # a set
    path.write_text(json.dumps(said, indent=2) + "\n")
    model.eval()
    with torch.no_grad():
        trace["logits"] = model(**batch).logits.tolist()
    trainable = [n.replace(".default", "").replace(".modules_to_save", "") for n, p in model.named_parameters()
                 if p.requires_grad]
    write_json(folder / "trace.json", {"versions": {**versions(), "peft": peft.__version__}, "seed": SEED,
                                       "trainable": trainable, **SETTINGS, "targets": FAMILIES[family], **trace})


for name in FAMILIES:
    make(name)
