#!/usr/bin/env python3
"""Makes tests/golden/tiny_<decoder>/<head>/ with the real packages (torch, transformers): on the CPU, fp32, eager attention,
dropout 0.  What each file holds is written in tests/golden/README.md.  With "rope": tests/golden/rope.json.

    make_decoder_traces.py [decoder ...] [rope]
"""
import sys

import safetensors.torch
import torch
import transformers
from transformers import set_seed
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from make_model_traces import make_batch, train
from make_traces import GOLDEN, SEED, versions, write_json

SIZES = dict(vocab_size=48, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=24, max_position_embeddings=64, initializer_range=0.15, pad_token_id=0, bos_token_id=2,
             eos_token_id=3, attention_dropout=0.0)
LLAMA3 = dict(rope_type="llama3", rope_theta=100.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=16)
LINEAR = dict(rope_type="linear", rope_theta=10000.0, factor=2.0)
# Prefix of transformers' classes and their configuration.
DECODERS = {
    "llama": ("Llama", dict(tie_word_embeddings=True, rope_parameters=LLAMA3, **SIZES)),
    "llama_biases": ("Llama", dict(tie_word_embeddings=False, attention_bias=True, mlp_bias=True, head_dim=6,
                                   rope_parameters=LINEAR, **SIZES)),
    "mistral": ("Mistral", dict(tie_word_embeddings=False, sliding_window=5, **SIZES)),
    "qwen2": ("Qwen2", dict(tie_word_embeddings=True, use_sliding_window=False, **{**SIZES, "num_key_value_heads": 1})),
    "qwen3": ("Qwen3", dict(tie_word_embeddings=False, head_dim=6, rope_parameters=YARN, **SIZES)),
    "gemma3": ("Gemma3", dict(tie_word_embeddings=True, head_dim=6, sliding_window=5, query_pre_attn_scalar=10,
                              layer_types=["sliding_attention", "full_attention"], **{**SIZES, "initializer_range": 0.06})),
}
CONFIGS = {"Gemma3": "Gemma3TextConfig"}
HEADS = {"causal_lm": "CausalLM", "classification": "SequenceClassification"}
LENGTHS = [(5, 4), (7, 0), (2, 9), (4, 0), (11, 5), (3, 6)]
ROPES = {
    "default 8": (dict(rope_type="default", rope_theta=10000.0), 8), "default 64": (dict(rope_type="default", rope_theta=5e5), 64),
    "linear": (LINEAR, 16), "llama3": ({**LLAMA3, "rope_theta": 5e5, "factor": 32.0, "original_max_position_embeddings": 8192}, 64),
    "llama3 short": (LLAMA3, 16), "yarn": ({**YARN, "rope_theta": 1e6, "original_max_position_embeddings": 32768}, 128),
    "yarn as it is": ({**YARN, "truncate": False, "beta_fast": 16.0, "beta_slow": 2.0}, 16),
    "yarn scaled": ({**YARN, "mscale": 0.7, "mscale_all_dim": 1.3}, 16), "yarn factor": ({**YARN, "attention_factor": 0.6}, 16),
}


def random_everywhere(model, plus_one):
    """Zero biases and unit norms would hide a swapped or forgotten one."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                start = 1.0 if "norm" in name and not plus_one else 0.0
                p.copy_(start + 0.1 * torch.randn(p.shape, generator=generator))
    return model.train()


def make(decoder, head):
    prefix, settings = DECODERS[decoder]
    config = getattr(transformers, CONFIGS.get(prefix, prefix + "Config"))(num_labels=3, **settings)
    batch = make_batch(LENGTHS, [2], [3], [3], 0, False)
    if head == "classification":
        batch["labels"] = torch.tensor([0, 1, 2, 2, 1, 0])
    else:
        batch["labels"] = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        for row, prompt in enumerate([3, 0, 2, 1, 6, 0]):
            batch["labels"][row, :prompt] = -100
    folder = GOLDEN / f"tiny_{decoder}" / head
    folder.mkdir(parents=True, exist_ok=True)
    set_seed(SEED)
    kind = getattr(transformers, "Gemma3TextForSequenceClassification" if prefix == "Gemma3" and head == "classification"
                   else f"{prefix}For{HEADS[head]}")
    model = random_everywhere(kind._from_config(config, attn_implementation="eager"), prefix == "Gemma3")
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    out = model(**batch)
    out.loss.backward()
    expected = {"loss": out.loss.detach().reshape(1), "logits": out["logits"].detach().contiguous()}
    for key, p in model.named_parameters():
        expected["grad." + key] = p.grad.clone()
    stored = {**batch, "token_type_ids": torch.zeros_like(batch["input_ids"])}
    safetensors.torch.save_file(stored, folder / "batch.safetensors")
    safetensors.torch.save_file(expected, folder / "expected.safetensors")
    model.zero_grad()
    names = [name for name, _ in model.named_parameters()]
    trace, decayed = train(model, batch)
    write_json(folder / "trace.json", {**trace, "parameters": names, "decayed": decayed, "versions": versions()})


def ropes():
    """[parameters, width, frequencies, attention factor] by name."""
    found = {}
    for name, (parameters, width) in ROPES.items():
        config = transformers.LlamaConfig(hidden_size=width, num_attention_heads=1, max_position_embeddings=64,
                                          rope_parameters=dict(parameters))
        if parameters["rope_type"] == "default":
            made = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding.compute_default_rope_parameters(config)
        else:
            made = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, "cpu")
        found[name] = [parameters, width, made[0].tolist(), float(made[1])]
    write_json(GOLDEN / "rope.json", found)


if __name__ == "__main__":
    torch.set_num_threads(2)
    for name in sys.argv[1:] or [*DECODERS, "rope"]:
        if name == "rope":
            ropes()
        else:
            for kind in HEADS:
                make(name, kind)
