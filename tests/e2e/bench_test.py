#!/usr/bin/env python3
"""lathe bench on tiny settings: what it prints is what is promised, and adds up."""
import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

import command_line as cl

MODEL = ["--model", str(cl.MODEL)]
FIGURES = ["ms", "calls", "flops_per_s", "percent_of_peak", "peak_flops_per_s", "peak_memory_bytes"]


def short_model(folder, positions):
    """The tiny model with so few positions."""
    shutil.copytree(cl.MODEL, folder, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = positions
    (folder / "config.json").write_text(json.dumps(config))
    raw = (cl.MODEL / "model.safetensors").read_bytes()
    begin = 8 + int.from_bytes(raw[:8], "little")
    header, data = json.loads(raw[8:begin]), b""
    for name in set(header) - {"__metadata__"}:
        tensor = header[name]
        values = raw[begin:][slice(*tensor["data_offsets"])]
        if name.endswith("position_embeddings.weight"):
            values = values[:len(values) // tensor["shape"][0] * positions]
            tensor["shape"][0] = positions
        tensor["data_offsets"] = [len(data), len(data) + len(values)]
        data += values
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)


class Bench(unittest.TestCase):

    def bench(self, *words):
        result = cl.run([cl.program(), "bench", *words, "--device", "cpu"])
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def rows(self, *words):
        rows = [json.loads(line) for line in self.bench(*words, "--json").splitlines()]
        for row in rows:
            for key in FIGURES if row["bench"] != "profile" else []:
                self.assertGreater(row[key], 0, (key, row))
            if os.path.exists("/proc/stat"):
                self.assertTrue(0 <= row["stolen_percent"] <= 100, row)
            if "percent_of_peak" in row:
                self.assertAlmostEqual(row["percent_of_peak"] * row["peak_flops_per_s"] / 100 / row["flops_per_s"], 1,
                                       places=4)
        return rows

    def test_step_is_one_line_with_all_keys(self):
        row, = self.rows("step", *MODEL, "--batch", "2", "--seq", "16", "--dtype", "fp32", "--threads", "1",
                         "--steps", "3")
        self.assertLessEqual({"min_ms", "tokens_per_s", "first_step_ms"}, set(row))
        self.assertEqual([row[k] for k in ("bench", "device", "model", "dtype", "threads", "batch", "seq", "steps",
                                               "calls")],
                         ["step", "cpu", MODEL[1], "fp32", 1, 2, 16, 3, 3])
        self.assertLessEqual(row["min_ms"], row["ms"])
        self.assertAlmostEqual(row["tokens_per_s"] * row["ms"] / (2 * 16 * 1e3), 1, places=4)

    @unittest.skipUnless(hasattr(os, "sched_setaffinity"), "this system ties no process to cores")
    def test_threads_that_share_a_core_have_its_peak(self):
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})
        def peak(threads):
            return self.rows("mlp", "--batch", "8", "--steps", "1", "--threads", threads)[0]["peak_flops_per_s"]
        try:
            # Taking turns, each at full speed in its own, eight had three times as much; other programs hold one up, too.
            self.assertTrue(any(peak("8") < 2 * peak("1") for _ in range(5)))
        finally:
            os.sched_setaffinity(0, cores)

    def test_a_network_of_ones_own(self):
        rows = self.rows("mlp", "--layers", "20,12,7,3", "--batch", "4,8", "--iterations", "250", "--device", "cpu")
        self.assertEqual([(row["layers"], row["batch"], row["calls"]) for row in rows],
                         [("20,12,7,3", 4, 250), ("20,12,7,3", 8, 250)])
        for row in rows:
            products = 2 * row["batch"] * (2 * 20 * 12 + 3 * (12 * 7 + 7 * 3))
            self.assertAlmostEqual(row["flops_per_s"] * row["ms"] / 1e3 / products, 1, places=4)
            self.assertGreater(row["seconds"], 0)
        for words, told in ((("--layers", "20"), "at least two widths"), (("--layers", "20,x"), "whole number"),
                            (("--iterations", "5", "--steps", "5"), "found both")):
            result = cl.run([cl.program(), "bench", "mlp", *words])
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(told, result.stderr)

    def test_profile_names_the_ops_of_the_step(self):
        step, *ops = self.rows("step", *MODEL, "--batch", "2", "--seq", "16", "--steps", "3", "--profile")
        self.assertEqual(step["dtype"], "bf16")
        self.assertEqual({row["calls"] for row in ops}, {3})
        self.assertLessEqual({"linear", "attention_bwd", "adamw"}, {row["op"] for row in ops})
        self.assertAlmostEqual(sum(row["percent"] for row in ops), 100, places=2)

    def test_profile_names_the_ops_of_each_forward_pass(self):
        rows = self.rows("infer", *MODEL, "--device", "cpu", "--batch", "1,3", "--dtype", "bf16,fp32", "--steps", "3",
                         "--profile")
        of = {(row["dtype"], row["batch"]): [] for row in rows if row["bench"] == "infer"}
        self.assertEqual(len(of), 4)
        for row in rows:
            if row["bench"] == "profile":
                of[row["dtype"], row["batch"]].append(row)
        for ops in of.values():
            self.assertLessEqual({"linear", "attention"}, {row["op"] for row in ops})
            self.assertFalse([row for row in ops if row["op"].endswith("_bwd")])
            self.assertAlmostEqual(sum(row["percent"] for row in ops), 100, places=2)
        copied = 2 ** 28  # a copy measures with more
        without = self.rows("infer", *MODEL, "--batch", "1", "--steps", "1")
        self.assertLess(max(row["peak_memory_bytes"] for row in rows if row["bench"] == "infer"),
                        without[0]["peak_memory_bytes"] + copied)

    def test_plan_counts_without_running(self):
        words = [*MODEL, "--batch", "2", "--seq", "16"]
        rows = [json.loads(line) for line in self.bench("plan", *words, "--json").splitlines()]
        *ops, total = [row for row in rows if "op" in row]
        self.assertEqual(total["op"], "all")
        for key in ("count", "flops", "bytes"):
            self.assertAlmostEqual(sum(row[key] for row in ops) / total[key], 1, places=4)
        *_, products = self.rows("gemm", *words, "--steps", "1", "--dtype", "bf16")
        of_products = sum(row["flops"] for row in ops if row["op"].startswith("linear") or "attention" in row["op"])
        self.assertAlmostEqual(of_products / products["flops"], 1, places=4)
        chips = {row["chip"]: row for row in rows if "chip" in row}
        self.assertLessEqual({"M1", "M2 Max", "M5"}, set(chips))
        for row in chips.values():
            self.assertAlmostEqual((row["compute_ms"] + row["memory_ms"] + row["launch_ms"]) / row["ms"], 1, places=4)
        self.assertLess(chips["M1 Max"]["ms"], chips["M1"]["ms"])
        self.assertIn("predicted", self.bench("--plan", *words))
        self.assertGreater(min(row["threads"] for row in rows), 0)

    def test_a_batch_that_cannot_fit_is_refused_before_it_is_made(self):
        for words in (["plan", "--seq", "16"], ["step", "--seq", "16"], ["infer"]):
            result = cl.run([cl.program(), "bench", *words, *MODEL, "--device", "cpu", "--batch", "2000000000"],
                            env={**os.environ, "LATHE_DATA_DIR": "nowhere"})
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("fits", result.stderr)

    def test_gemm_sums_up_its_products(self):
        rows = self.rows("gemm", *MODEL, "--batch", "2", "--seq", "16", "--steps", "2")
        for dtype in ("bf16", "fp32"):
            *products, total = [row for row in rows if row["dtype"] == dtype]
            self.assertEqual(total["op"], "all products")
            weights = "linear_bwd_weight_cast" if dtype == "bf16" else "linear_bwd_weight"  # gradients as torch.autocast's
            self.assertLessEqual({"linear", "linear_bwd_input", weights}, {row["op"] for row in products})
            self.assertLess(abs(sum(row["flops"] for row in products) / total["flops"] - 1), 0.02)

    def test_loss_compares_two_ways(self):
        rows = self.rows("loss", *MODEL, "--batch", "5,40", "--dtype", "bf16,fp16,fp32", "--steps", "2")
        self.assertEqual([(row["dtype"], row["rows"]) for row in rows[::2]],
                         [(dtype, rows) for dtype in ("bf16", "fp16", "fp32") for rows in (5, 40)])
        for apart, one in zip(rows[::2], rows[1::2]):
            self.assertEqual((apart["way"], apart["ratio"], one["way"]), ("separate ops", 1, "one op"))
            self.assertAlmostEqual(one["ratio"], one["ms"] / apart["ms"], places=3)

    def test_mlp_counts_its_operations(self):
        row, = self.rows("mlp", "--batch", "64", "--steps", "3")
        layers = [1024 * 512, 512 * 256, 256 * 10]
        flops = 2 * 64 * (2 * layers[0] + 3 * layers[1] + 3 * layers[2])
        self.assertAlmostEqual(row["flops_per_s"] * row["ms"] * 1e-3 / flops, 1, places=4)
        self.assertEqual([row["batch"] for row in self.rows("mlp", "--batch", "3,8", "--steps", "1")], [3, 8])

    def test_infer_takes_every_batch_size(self):
        rows = self.rows("infer", *MODEL, "--steps", "2", "--data_dir", "/no/such/folder")
        self.assertEqual([row["batch"] for row in rows], [1, 2, 4, 8, 16, 32, 64])
        self.assertEqual([row["tokens"] for row in rows], [11, 20, 41, 98, 211, 422, 844])
        self.assertEqual([sum(row["lengths"]) for row in rows], [row["tokens"] for row in rows])
        row, = self.rows("infer", *MODEL, "--steps", "2", "--batch", "3", "--dtype", "fp32")
        self.assertEqual((row["batch"], row["dtype"]), (3, "fp32"))
        rows = self.rows("infer", *MODEL, "--steps", "1", "--batch", "2,5", "--dtype", "bf16,int8")
        self.assertEqual([(row["batch"], row["dtype"]) for row in rows],
                         [(2, "bf16"), (5, "bf16"), (2, "int8"), (5, "int8")])

    def test_models_of_few_positions(self):
        with tempfile.TemporaryDirectory() as folder:
            short_model(pathlib.Path(folder), 16)
            row, = self.rows("infer", "--model", folder, "--batch", "16", "--steps", "1", "--data_dir", "/no/such/folder")
            self.assertEqual(row["longest"], 16)
            for bench in ("finetune", "step", "plan"):
                result = cl.run([cl.program(), "bench", bench, "--model", folder, "--device", "cpu", "--seq", "17"])
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(f"--seq: found 17, expected at most 16: {folder} has no more positions", result.stderr)

    def test_finetune_trains_all_and_the_head(self):
        rows = self.rows("finetune", *MODEL, "--epochs", "1", "--seq", "32", "--data_dir", "/no/such/folder")
        self.assertEqual([(row["trained"], row["samples"], row["data"]) for row in rows],
                         [("all", 1000, "demo"), ("head", 1000, "demo")])
        for row in rows:
            self.assertGreater(row["samples_per_s"], 0)
            self.assertTrue(0 <= row["accuracy"] <= 1, row)
            self.assertAlmostEqual(row["ms"] * row["calls"] / row["seconds"] / 1e3, 1, places=4)
            self.assertEqual(row["calls"], 32)  # 1,000 by 32
            self.assertTrue(1000 * 3 < row["tokens_per_s"] * row["seconds"] < 1000 * 32, row)
        every, head = (row["flops_per_s"] * row["ms"] for row in rows)
        # A frozen base has no backward pass, which is two products for each of the forward pass; six digits are printed.
        self.assertTrue(1.5 < every / head < 3.0001, rows)

    def test_tables_and_a_page(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "new" / "page.html"
            text = self.bench("gemm", *MODEL, "--batch", "2", "--seq", "16", "--steps", "2", "--html", str(page))
            self.assertIn("% of peak", text)
            self.assertIn("peak measured first", text)
            html = page.read_text(encoding="utf-8")
            self.assertIn("linear_bwd_weight", html)
            self.assertNotIn("<script", html)
            self.assertEqual([p.name for p in page.parent.iterdir()], ["page.html"])  # no temporary file stays
            words = ["step", *MODEL, "--batch", "2", "--seq", "16", "--steps", "2", "--html", str(page)]
            self.assertEqual(len(self.bench(*words, "--json").splitlines()), 1)  # only the page shows the profile
            html = page.read_text(encoding="utf-8")
            self.assertIn("<svg", html)
            self.assertIn("adamw", html)
            self.bench("mlp", "--batch", "8,16", "--steps", "2", "--html", str(page))
            self.assertEqual(page.read_text(encoding="utf-8").count("<rect"), 2)

    def test_the_comparison_says_what_is_not_installed(self):
        result = cl.run([sys.executable, "-I", "-S", str(cl.ROOT / "bench" / "against_torch.py"), "--lathe", cl.program()])
        self.assertEqual(result.returncode, 77, result.stderr)
        self.assertIn("skipped: torch is not installed", result.stdout)
        for words in (("--step_dtypes", "fp8"), ("--step_batches", "9"), ("--cases", "stepp"), ("--threads", "0"),
                      ("--lathe", "/no/such/lathe")):
            result = cl.run([sys.executable, "-I", "-S", str(cl.ROOT / "bench" / "against_torch.py"), *words])
            self.assertEqual(result.returncode, 2, words)
            self.assertRegex(result.stderr, f"found {words[1]}(, which is no program)?; expected")

    def test_help_shows_defaults_and_mistakes_are_usage_errors(self):
        text = cl.run([cl.program(), "bench", "--help"]).stdout
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 100)
        self.assertIn("--batch 1,2,4,8,16,32,64", text)  # a flag and its value stay together
        text = " ".join(text.split())
        self.assertIn("--model bert-base --batch 8 --seq 128 --dtype bf16", text)
        self.assertIn("several parted by commas but for step and plan", text)
        for words, told in (((), "expected the name of one bench"), (("stepp",), "stepp"), (("mlp", "--seq", "8"), "--seq"),
                            (("step", "--dtype", "fp4"), "fp4"), (("finetune", "--dtype", "bf16,fp4"), "fp4"),
                            (("step", *MODEL, "--seq", "5000"), "positions"),
                            (("step", "--devise", "cpu"), "--device"), (("step", "--batch", "2,5"), "takes one"),
                            (("step", "--dtype", "bf16,fp32"), "lathe bench step takes one"),
                            (("gemm", "--batch", "2,5"), "takes one"), (("finetune", "--batch", "2,5"), "takes one"),
                            (("plan", "--batch", "64,128"), "takes one"),
                            (("infer", "--batch", "2,x"), "whole number"),
                            (("infer", "--batch", "99999999999"), "expected a whole number from 1 to 2147483647"), (("mlp", "--device", "toaster"), "toaster")):
            result = cl.run([cl.program(), "bench", *words])
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(told, result.stderr)
            self.assertEqual(result.stdout, "")

    def test_fp8_is_refused_where_a_device_has_none(self):
        for words in (("step", *MODEL, "--seq", "16"), ("infer", *MODEL), ("gemm", *MODEL, "--seq", "16")):
            result = cl.run([cl.program(), "bench", *words, "--device", "cpu", "--dtype", "fp8"])
            self.assertEqual(result.returncode, 1, words)
            self.assertIn("fp8: device cpu", result.stderr)
            self.assertIn("--bf16 runs here", result.stderr)
            self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    cl.main()
