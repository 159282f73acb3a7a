#!/usr/bin/env python3
"""lathe glue --use_peft: only the adapter is trained and saved, resumes to the same bits, predicts, and merges."""
import json
import shutil

import command_line as cl


class Lora(cl.CommandsCase):
    def adapter(self, *more, out=None):
        return cl.glue_command(out or self.out, self.train, self.dev, "--use_peft", "--num_train_epochs", "2", "--save_steps",
                               "5", "--lora_dropout", "0.1", *map(str, more))

    def refused(self, command, *words):
        result = cl.run(command)
        self.assertNotEqual(result.returncode, 0)
        for word in words:
            self.assertIn(word, result.stderr)
        return result

    def test_a_run_holds_only_the_adapter_and_goes_on_to_the_same_bits(self):
        self.works(self.adapter())
        names = {path.name for path in self.out.iterdir()}
        self.assertTrue({"adapter_config.json", "adapter_model.safetensors", "README.md"} <= names)
        for folder in (self.out, self.out / "checkpoint-5"):
            self.assertFalse((folder / "model.safetensors").exists())
        said = cl.read(self.out / "adapter_config.json")
        self.assertEqual((said["r"], said["lora_alpha"], said["peft_type"], said["task_type"], said["target_modules"],
                          said["modules_to_save"], said["base_model_name_or_path"]),
                         (8, 8, "LORA", "SEQ_CLS", ["query", "value"], ["classifier", "score"], str(cl.MODEL)))
        whole = (self.out / "adapter_model.safetensors").read_bytes()
        for name in ("checkpoint-10", "checkpoint-12"):
            shutil.rmtree(self.out / name)
        self.works(self.adapter())
        self.assertEqual((self.out / "adapter_model.safetensors").read_bytes(), whole)
        self.refused(self.adapter("--lora_r", "4"), "lora_A.weight[8, 32]", "lora_A.weight[4, 32]", "--use_peft")
        self.refused(cl.glue_command(self.out, self.train, self.dev), "written for other parameters")

    def test_predict_merge_and_a_second_run(self):
        self.works(self.adapter())
        text = "who opened the bridge who"
        shown = self.lathe("predict", self.out, text, "--json").stdout
        info = self.lathe("info", self.out).stdout
        self.assertIn(f"adapter         LoRA of {cl.MODEL}: r 8, alpha 8, dropout 0.1, scale 1\nlayers          query, value\n", info)
        self.assertRegex(info, r"query\.lora_A\.weight +f32\[8, 32\]")
        self.assertIn("library_name: peft\n", (self.out / "README.md").read_text())
        said = self.lathe("merge", self.out, "--output_dir", self.root / "merged").stdout
        self.assertIn("largest change of a logit on 3 sample texts", said)
        merged = json.loads(self.lathe("predict", self.root / "merged", text, "--json").stdout)
        for label, p in json.loads(shown)["probabilities"].items():
            self.assertAlmostEqual(p, merged["probabilities"][label], delta=1e-6)
        self.refused([cl.program(), "merge", str(self.out), "--output_dir", str(self.root / "merged")], "is not empty")
        self.refused([cl.program(), "merge", str(self.out)], "expected --output_dir")
        again = cl.glue_command(self.root / "again", self.train, self.dev, "--model_name_or_path", str(self.out))
        self.works(again)
        self.assertTrue((self.root / "again" / "adapter_model.safetensors").exists())
        self.refused([*again, "--lora_r", "2", "--overwrite_output_dir"], "--lora_r: found 2", "has 8")

    def test_what_does_not_fit_is_refused_and_nothing_is_left(self):
        self.refused(self.adapter("--lora_target_modules", "q_lin"), "--lora_target_modules: found q_lin",
                     "it has query, key, value, dense")
        self.refused(self.adapter("--lora_modules_to_save", "nothing"), "--lora_modules_to_save: found nothing")
        self.refused(self.adapter("--freeze_base_model"), "--use_peft and --freeze_base_model")
        self.assertFalse(self.out.exists())

    def test_an_adapter_of_another_model_or_rank(self):
        self.works(self.adapter())
        path = self.out / "adapter_config.json"
        good = cl.read(path)
        for change, words in (({"r": 4}, ["found [8, 32]", "expected [4, 32]"]),
                              ({"target_modules": ["query"]}, ["left over: ", "value.lora_A.weight"]),
                              ({"target_modules": ["query", "key", "value"]}, ["missing: ", "key.lora_A.weight"]),
                              ({"target_modules": ["q_proj"]}, ["\"target_modules\": found q_proj"]),
                              ({"use_dora": True}, ["\"use_dora\": found true"]),
                              ({"peft_type": "LOHA"}, ["\"peft_type\": found LOHA"]),
                              ({"base_model_name_or_path": None}, ["\"base_model_name_or_path\": found none"])):
            with self.subTest(change=change):
                path.write_text(json.dumps({**good, **change}))
                self.refused([cl.program(), "predict", str(self.out), "who"], str(self.out), *words)


if __name__ == "__main__":
    cl.main()
