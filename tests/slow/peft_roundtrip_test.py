#!/usr/bin/env python3
"""An adapter that Lathe wrote gives the same in PEFT, one that PEFT wrote the same in Lathe, and both merge to one model.

Runs in $LATHE_HF_PYTHON, a Python with torch, transformers and peft (tools/setup.sh --full makes one).  The bound of
scores is 1e-6 (issue: "adapter read by PEFT, logits"); of merged weights two units in the last place of the largest:
sums of rank products are rounded in another order.
"""
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import command_line as cl

cl.need_transformers()
os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
import torch
import transformers

try:
    import peft
except ImportError:
    print("skipped: needs peft in LATHE_HF_PYTHON (tools/setup.sh --full)")
    sys.exit(77)

TEXTS = ["who opened the bridge who", "the old city", "a river", "where was the engine of the lathe"]
BOUND = 1e-6


class PeftRoundTrip(cl.CommandsCase):
    def base(self, labels):
        torch.manual_seed(1)
        return transformers.AutoModelForSequenceClassification.from_pretrained(cl.MODEL, num_labels=labels).eval()

    def labels_of(self, folder):
        return list(cl.read(folder / "config.json")["id2label"].values())

    def check_scores(self, folder, model):
        """lathe predict gives what the model gives."""
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        worst, spread = 0.0, set()
        for text in TEXTS:
            mine = list(json.loads(self.lathe("predict", folder, text, "--json").stdout)["probabilities"].values())
            with torch.no_grad():
                theirs = model(**tokenizer(text, return_tensors="pt")).logits[0].softmax(-1).tolist()
            spread.add(round(theirs[0], 4))
            worst = max(worst, *(abs(a - b) for a, b in zip(mine, theirs, strict=True)))
        self.assertLess(worst, BOUND)
        self.assertGreater(len(spread), 1)  # the texts tell the model from a constant

    def check_merged(self, folder, model):
        self.works([cl.program(), "merge", str(folder), "--output_dir", str(self.root / "merged")])
        merged = transformers.AutoModelForSequenceClassification.from_pretrained(self.root / "merged").state_dict()
        for name, tensor in model.merge_and_unload().state_dict().items():
            most = tensor.abs().max().item()
            self.assertLessEqual((merged[name] - tensor).abs().max().item(), 2 * 2.0 ** -23 * most, name)

    def test_of_lathe_in_peft(self):
        for more in ((), ("--lora_target_modules", "all-linear", "--lora_r", "4", "--lora_alpha", "9", "--use_rslora",
                          "--lora_dropout", "0.1")):
            with self.subTest(more=more):
                out = self.root / f"adapter{len(more)}"
                self.works(cl.glue_command(out, self.train, self.dev, "--use_peft", "--learning_rate", "2e-2", *more))
                model = peft.PeftModel.from_pretrained(self.base(len(self.labels_of(out))), out).eval()
                self.check_scores(out, model)
        self.check_merged(out, model)

    def test_of_peft_in_lathe(self):
        whole = self.root / "whole"
        self.works(cl.glue_command(whole, self.train, self.dev, "--max_steps", "1"))
        base = transformers.AutoModelForSequenceClassification.from_pretrained(whole)
        out = self.root / "adapter"
        config = peft.LoraConfig(task_type="SEQ_CLS", r=3, lora_alpha=5, target_modules=["query", "dense"],
                                 init_lora_weights=False)
        model = peft.get_peft_model(base, config).eval()
        for name, parameter in model.named_parameters():  # a head that the base has not
            if "modules_to_save" in name:
                parameter.data.normal_()
        model.peft_config["default"].base_model_name_or_path = str(whole)
        model.save_pretrained(out)
        transformers.AutoTokenizer.from_pretrained(whole).save_pretrained(out)
        base.config.save_pretrained(out)
        self.check_scores(out, model)
        command = cl.glue_command(self.root / "more", self.train, self.dev, "--model_name_or_path", str(out))
        self.works(command)
        said = cl.read(self.root / "more" / "adapter_config.json")
        self.assertEqual((said["r"], said["lora_alpha"], sorted(said["target_modules"])), (3, 5, ["dense", "query"]))
        self.check_merged(out, model)


if __name__ == "__main__":
    cl.main()
