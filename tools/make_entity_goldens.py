#!/usr/bin/env python3
"""Writes tests/golden/data/entities.json: what transformers' token-classification pipeline makes of the logits of tiny
random models, for every aggregation_strategy, texts and words, whole and in windows. An answer is entity, score, word,
start, end, index; logits are in sixteenths. Needs transformers and torch; the tests do not.

Usage: tools/make_entity_goldens.py DATA_DIR     (from the repository root)
"""
import json
import pathlib
import warnings

import torch
from make_words_goldens import stored_tokenizers
from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast, TokenClassificationPipeline

TOKENIZERS = {"small": "[UNK]", "cased": "[UNK]", "prefixed": "<unk>", "roberta": "<unk>", "xlm-roberta": "<unk>", "modernbert": "[UNK]"}
LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "NOUN", "B-A-B"]
STRATEGIES = ["none", "simple", "first", "average", "max"]
TEXTS = [
    "hello the quick hello", "Ada Lovelace wrote to Charles Babbage in London, the capital of England.",
    "the lathe's  naïve\u00a0café (unable) [hello] 世界peace", "A 帆 \U0001f6a2 took north! \u200bhello",
    "x", "state-of-the-art: 3.5 % of U.S. firms' e-mails", "Unhellollo quicking théthe hellohello THE",
]
LONG = " ".join(TEXTS[:3])


class Quantised(BertForTokenClassification):
    """Logits that are multiples of 1/16, so that they are short in JSON and ties occur; neighbours are alike."""

    def forward(self, **inputs):
        out = super().forward(**inputs)
        logits = out.logits.clone()
        for i in range(1, logits.shape[1]):
            logits[:, i] = 0.4 * logits[:, i - 1] + 0.6 * logits[:, i]
        sixteenths = (logits * 16).round()
        out.logits = sixteenths / 16
        self.seen.append(sixteenths[0].flatten().int().tolist())
        return out


Quantised.__name__ = "BertForTokenClassification"   # else the pipeline warns

def model_of(vocabulary):
    torch.manual_seed(1)
    config = BertConfig(vocab_size=vocabulary, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
                        max_position_embeddings=200, num_labels=len(LABELS), id2label=dict(enumerate(LABELS)),
                        label2id={name: i for i, name in enumerate(LABELS)}, initializer_range=0.6)
    return Quantised(config).eval()


def plain(entities):
    return [[e.get("entity", e.get("entity_group")), round(float(e["score"]), 7), e["word"], e["start"], e["end"], e.get("index", -1)]
            for e in entities]


def case(pipe, text, words, stride):
    answers, model = {}, pipe.model
    for strategy in STRATEGIES:
        if stride is not None and strategy == "none":
            continue
        model.seen = []
        options = {"aggregation_strategy": strategy, "stride": stride, "is_split_into_words": words}
        found = pipe(text, **{k: v for k, v in options.items() if v not in (None, False)})
        answers[strategy] = plain(found[0] if words else found)
        windows = len(model.seen)
    # Each strategy ran the model; windows are padded to the longest one, so that a shorter one has rows too many.
    return {"input": text, "stride": stride, "logits": model.seen[:windows], "answers": answers}


def main():
    warnings.simplefilter("ignore")
    stored = stored_tokenizers()
    out = []
    for name, unk in TOKENIZERS.items():
        backend = stored[name]
        backend.no_truncation()
        cls = "<pad>" if "<pad>" in backend.get_vocab() else "[PAD]"
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token=unk, pad_token=cls, model_max_length=200,
                                            model_input_names=["input_ids", "attention_mask"])
        pipe = TokenClassificationPipeline(model=model_of(len(tokenizer)), tokenizer=tokenizer)
        cases = [case(pipe, text, False, None) for text in TEXTS]
        cases += [case(pipe, text.split(" "), True, None) for text in TEXTS[2:4]]
        tokenizer.model_max_length = 24
        cases += [case(pipe, LONG, False, 6), case(pipe, LONG.split(" "), True, 6)]
        out.append({"tokenizer": name, "unk_token": unk, "cases": cases})
        print(name, sum(len(a) for c in cases for a in c["answers"].values()), flush=True)
    target = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/data/entities.json"
    rows = ",\n".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in out)
    target.write_text(f'{{"labels":{json.dumps(LABELS)},"max_length":24,"tokenizers":[\n{rows}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
