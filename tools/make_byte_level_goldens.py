#!/usr/bin/env python3
"""Writes lathe/tokenizers/testdata/byte_level_goldens.json: as make_tokenizer_goldens.py, for byte-level BPE.

    python3 tools/make_byte_level_goldens.py [data folder, default ../shared/data]

The small tokenizers are trained on text/sample_text.txt; the real ones are RoBERTa's and GPT-2's vocabularies.
"""
import json

import make_tokenizer_goldens as common
from make_tokenizer_goldens import DATA, decode_case, fields_case, random_case, squad_case
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

common.TARGET = common.ROOT / "lathe/tokenizers/testdata/byte_level_goldens.json"
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
FLAGGED = [AddedToken("<tag>", lstrip=True, rstrip=True, normalized=False), AddedToken(" hello ", normalized=False),
           AddedToken("q", rstrip=True, normalized=True), AddedToken("Ünï", normalized=True, single_word=True)]
TEXTS = ["", "Hello, World!", "  I'll  say they've\n\n 12\u00a0x", "naïve café <mask> 世界peace </s>end", "a" * 100, "\u0301\u200b"]


def roberta(model, prefix, trim=True):
    t = Tokenizer(model)
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens(SPECIAL + [AddedToken("<mask>", lstrip=True)])
    cls, sep = (t.token_to_id(x) for x in ("<s>", "</s>"))
    t.post_processor = processors.RobertaProcessing(("</s>", sep), ("<s>", cls), trim, prefix)
    return t


def small_tokenizers():
    def trained():
        t = Tokenizer(models.BPE())
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        t.train([str(DATA / "text/sample_text.txt")], trainers.BpeTrainer(
            vocab_size=340, show_progress=False, special_tokens=SPECIAL,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        return t.model
    gpt2 = roberta(trained(), True)
    gpt2.post_processor = processors.ByteLevel(trim_offsets=True, add_prefix_space=False)
    template = processors.TemplateProcessing(single="<s>:0 $A:0 </s>:0", pair="<s>:0 $A:0 </s>:0 $B:1 </s>:1",
                                             special_tokens=[("<s>", 0), ("</s>", 2)])
    modern = roberta(trained(), False)
    modern.post_processor = template
    both = roberta(trained(), True)
    both.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), template])
    plain = roberta(trained(), False, False)
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)
    plain.model.ignore_merges = True
    flagged = roberta(trained(), True)
    flagged.add_tokens(FLAGGED)
    return {"roberta": roberta(trained(), False), "prefixed": roberta(trained(), True), "gpt2": gpt2,
            "modern": modern, "sequence": both, "no-regex": plain, "flagged": flagged}


def real_tokenizers():
    """Name -> (tokenizer, how the C++ side puts it together)."""
    merges = [tuple(line.split(" ")) for line in (DATA / "vocab/gpt2/merges.txt").read_text("utf-8").split("\n")[1:] if line]
    out = {}
    for name, folder, prefix in (("roberta-base", "roberta-base", False), ("gpt2-prefixed", "gpt2", True)):
        vocab = json.loads((DATA / "vocab" / folder / "vocab.json").read_text("utf-8"))
        t = roberta(models.BPE(vocab, merges), prefix)
        rest = json.loads(t.to_str())
        rest["model"].update(vocab={}, merges=[])
        out[name] = (t, {"rest": rest, "vocab": f"vocab/{folder}/vocab.json", "merges": "vocab/gpt2/merges.txt"})
    return out


def main():
    cases, encodings, configurations = [], [], {}

    def case(kind, name, result, **more):
        cases.append({"kind": kind, "tokenizer": name, **more, **result})
        print(cases[-1], flush=True)

    for name, t in small_tokenizers().items():
        configurations[name] = {"tokenizer.json": json.loads(t.to_str())}
        case("random", name, random_case(t))
        case("decode", name, decode_case(t))
    for name, (t, source) in real_tokenizers().items():
        configurations[name] = source
        if name == "roberta-base":  # a question of another language has more bytes than a window has tokens
            case("decode", name, decode_case(t))
            case("fields", name, fields_case(t, "glue/MRPC/train.tsv"), file="glue/MRPC/train.tsv")
            for file in [f"xquad/xquad.{x}-a.json" for x in "ar de el en hi ru".split()]:
                case("squad", name, squad_case(t, file), file=file)
        for text in TEXTS:
            e = t.encode(text)
            encodings.append({"tokenizer": name, "text": text, "ids": e.ids, "tokens": [t.id_to_token(i) for i in e.ids], "offsets": e.offsets,
                              "decoded": t.decode(e.ids)})
    common.write({"made_with": "tokenizers " + common.tokenizers.__version__, "tokenizers": configurations,
                  "cases": cases, "encodings": encodings})


if __name__ == "__main__":
    main()
