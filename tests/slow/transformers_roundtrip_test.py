#!/usr/bin/env python3
"""What Lathe writes loads in the real transformers and what transformers writes loads in Lathe, with the same results.

Runs in $LATHE_HF_PYTHON, a Python with torch and transformers (tools/setup.sh --full makes one).

The bound.  The truth is the same weights in double (transformers, float64).  How far fp32 arithmetic is from it is what
transformers' own fp32 run shows: the root mean square e of its errors over all scores of all texts.  Another correct
fp32 run sums the same terms in another order, so its errors are drawn from nearly the same distribution, close to a normal
one of deviation e: of the 3,000 scores of a model at most none is beyond 5 e (odds 1 : 500, and no draw between runs:
Lathe gives the same bits every time).  Twice that for what differs in method (blocked sums, own exp, erf and tanh within
a few units in the last place), and ten units in the last place of the largest score, because few scores may give an e
that is small by luck.  e itself has to be of fp32's size.  bf16 anywhere on the way (2^-9 for each rounding), the tanh
form of GELU (1e-4) or another epsilon are far beyond.
"""
import json
import math
import os
import pathlib
import random
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import command_line as cl

cl.need_transformers()
os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
import torch
import transformers

transformers.utils.logging.disable_progress_bar()
DATA = pathlib.Path(os.environ.get("LATHE_DATA_DIR", cl.ROOT / ".." / "shared" / "data"))
MINILM = pathlib.Path(os.environ.get("LATHE_MODEL_DIR", cl.ROOT / "build" / "models")) / "all-MiniLM-L6-v2"
GOLDEN = cl.ROOT / "tests" / "golden" / "tiny_bert"
CLASSIFIERS = ("classification", "regression", "multi_label")
ROUNDING = 2.0 ** -23
TEXTS = 30


def made_texts():
    """Texts and pairs of all lengths up to beyond the tiny model's 64 tokens."""
    draw = random.Random(5)
    words = cl.WORDS + ["naïve", "Zürich", "?", "unheardof", "3.14", "日本"]
    text = lambda longest: " ".join(draw.choice(words) for _ in range(draw.randint(1, longest)))
    return [f"{text(20)}\t{text(60)}" for _ in range(TEXTS)]


def mrpc_texts():
    rows = (DATA / "glue" / "MRPC" / "dev.tsv").read_text(encoding="utf-8").splitlines()[1:TEXTS + 1]
    return ["\t".join(row.split("\t")[3:5]) for row in rows]


def load(cls, folder, dtype=torch.float32):
    """The model, which has to be there whole."""
    model, report = cls.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[kind], (folder, kind, report[kind])
    return model.to(dtype).eval()


def scores_of(folder, texts, dtype):
    """[text][score]: probabilities, or the value of a regression, from transformers."""
    model = load(transformers.AutoModelForSequenceClassification, folder, dtype)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    length = min(128, tokenizer.model_max_length)
    scores = []
    with torch.no_grad():
        for text in texts:
            batch = tokenizer(*text.split("\t"), truncation=True, max_length=length, return_tensors="pt")
            logits = model(**batch).logits[0]
            if model.config.num_labels > 1:
                several = model.config.problem_type == "multi_label_classification"
                logits = logits.sigmoid() if several else logits.softmax(-1)
            scores.append(logits.double().tolist())
    return scores


def bound_from(single, exact):
    """See the head of this file; `single` and `exact` are flat lists of transformers' scores in fp32 and float64."""
    deviation = math.sqrt(sum((a - b) ** 2 for a, b in zip(single, exact)) / len(exact))
    size = max(1.0, max(map(abs, exact)))
    assert deviation < 2e-6 * size, deviation
    return 10 * (deviation + ROUNDING * size)


def flat(rows):
    return [value for row in rows for value in row]


class RoundTrip(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.root = pathlib.Path(self.temp.name)

    def lathe(self, *words):
        result = cl.run([cl.program(), *map(str, words)])
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def check_classifier(self, folder, texts):
        """lathe predict gives what transformers gives."""
        file = self.root / "texts.txt"
        file.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        lines = self.lathe("predict", folder, "--file", file, "--json").splitlines()
        self.assertEqual(len(lines), len(texts))
        mine = [[row["value"]] if "value" in row else list(row["probabilities"].values())
                for row in map(json.loads, lines)]
        exact, single = (scores_of(folder, texts, dtype) for dtype in (torch.float64, torch.float32))
        self.assertEqual([len(row) for row in mine], [len(row) for row in exact])
        bound = bound_from(flat(single), flat(exact))
        worst = max(abs(a - b) for a, b in zip(flat(mine), flat(exact)))
        print(f"{folder.name}: {worst:.1e} of {bound:.1e}", file=sys.stderr)
        self.assertLessEqual(worst, bound, folder)
        self.assertGreater(max(flat(exact)) - min(flat(exact)), 1e-3)  # the texts tell the model apart from a constant

    def check_answers(self, folder, questions):
        """lathe qa gives the start and end scores that transformers gives.  questions: SQuAD's JSON, short contexts."""
        file, out = self.root / "questions.json", self.root / f"answers-{folder.name}"
        file.write_text(json.dumps(questions), encoding="utf-8")
        self.lathe("qa", "--model_name_or_path", folder, "--do_eval", "--validation_file", file, "--use_cpu",
                   "--output_dir", out, "--max_seq_length", "64", "--doc_stride", "16")
        nbest = json.loads((out / "eval_nbest_predictions.json").read_text(encoding="utf-8"))
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        exact, single, spans = [], [], {}
        for dtype, scores in ((torch.float64, exact), (torch.float32, single)):
            model = load(transformers.AutoModelForQuestionAnswering, folder, dtype)
            for entry in questions["data"][0]["paragraphs"]:
                qa, context = entry["qas"][0], entry["context"]
                batch = tokenizer(qa["question"], context, return_tensors="pt", return_offsets_mapping=True)
                places = batch.pop("offset_mapping")[0].tolist()
                self.assertLessEqual(len(places), 64)  # one window: no doubt from where a score comes
                with torch.no_grad():
                    output = model(**batch)
                starts, ends = output.start_logits[0].tolist(), output.end_logits[0].tolist()
                scores += starts + ends
                spans[qa["id"]] = (context, places, starts, ends, batch["token_type_ids"][0].tolist())
            if dtype == torch.float64:
                truth = dict(spans)
        bound, worst = bound_from(single, exact), 0.0
        self.assertEqual(list(nbest), list(truth))
        for key, entries in nbest.items():
            context, places, starts, ends, types = truth[key]
            for entry in entries[:5]:  # its text stands where these scores are
                distances = [max(abs(starts[i] - entry["start_logit"]), abs(ends[j] - entry["end_logit"]))
                             for i in range(len(places)) for j in range(i, len(places))
                             if types[i] == types[j] == 1 and context[places[i][0]:places[j][1]] == entry["text"]]
                self.assertTrue(distances, (key, entry))
                worst = max(worst, min(distances))
        print(f"{folder.name}: {worst:.1e} of {bound:.1e}", file=sys.stderr)
        self.assertLessEqual(worst, bound, folder)


def made_questions():
    draw = random.Random(6)
    paragraphs = []
    for i in range(TEXTS):
        context = " ".join(draw.choice(cl.WORDS) for _ in range(draw.randint(8, 25)))
        answer = context.split(" ")[3]
        start = context.index(" " + answer) + 1 if " " + answer in context else 0
        question = " ".join(draw.choice(cl.WORDS) for _ in range(6)) + "?"
        paragraphs.append({"context": context, "qas": [{"id": f"q{i}", "question": question,
                                                        "answers": [{"text": answer, "answer_start": start}]}]})
    return {"version": "1.1", "data": [{"title": "made", "paragraphs": paragraphs}]}


class LatheToTransformers(RoundTrip):
    """Folders that Lathe trained and wrote."""

    def test_tiny_classifier(self):
        cl.write_csv(self.root / "train.csv", 64, 1)
        cl.write_csv(self.root / "dev.csv", 12, 2)
        out = self.root / "trained"
        self.lathe(*cl.glue_command(out, self.root / "train.csv", self.root / "dev.csv")[1:])
        self.check_classifier(out, made_texts())
        self.check_classifier(out / "checkpoint-24", made_texts())

    def test_tiny_question_answering(self):
        train, out = self.root / "train.json", self.root / "trained-qa"
        train.write_text(json.dumps(made_questions()))
        self.lathe("qa", "--model_name_or_path", GOLDEN / "question_answering", "--do_train", "--train_file", train,
                   "--output_dir", out, "--use_cpu", "--learning_rate", "1e-3", "--max_seq_length", "64",
                   "--doc_stride", "16")
        self.check_answers(out, made_questions())

    @unittest.skipUnless((MINILM / "model.safetensors").exists() and (DATA / "glue" / "MRPC").is_dir(),
                         "needs tools/fetch_test_model.sh and LATHE_DATA_DIR")
    def test_minilm_after_mrpc_and_stsb(self):
        for task in ("mrpc", "stsb"):
            out = self.root / task
            self.lathe("glue", "--model_name_or_path", MINILM, "--task_name", task, "--do_train", "--output_dir", out,
                       "--max_seq_length", "128", "--per_device_train_batch_size", "8", "--max_train_samples", "64",
                       "--data_dir", DATA / "glue", "--learning_rate", "5e-5", "--use_cpu", "--num_train_epochs", "1")
            self.check_classifier(out, mrpc_texts())

    @unittest.skipUnless((MINILM / "model.safetensors").exists() and (DATA / "squad").is_dir(),
                         "needs tools/fetch_test_model.sh and LATHE_DATA_DIR")
    def test_minilm_after_squad(self):
        out = self.root / "squad"
        self.lathe("qa", "--model_name_or_path", MINILM, "--train_file", DATA / "squad" / "train-v1.1-part.json",
                   "--do_train", "--max_train_samples", "16", "--max_seq_length", "384", "--doc_stride", "128",
                   "--per_device_train_batch_size", "4", "--output_dir", out, "--use_cpu", "--num_train_epochs", "1")
        self.check_answers(out, made_questions())


class TransformersToLathe(RoundTrip):
    """Folders that transformers wrote, in every form it writes."""

    def forms(self, cls, source, name):
        """Pairs of form and folder: the model of `source` written by transformers."""
        tokenizer = transformers.AutoTokenizer.from_pretrained(source)
        for dtype in (torch.float32, torch.bfloat16):
            model = load(cls, source).to(dtype)
            for form in ("whole", "sharded", "pickled"):
                folder = self.root / f"{name}-{form}-{str(dtype).split('.')[1]}"
                tokenizer.save_pretrained(folder)
                if form == "pickled":
                    model.config.dtype = dtype
                    model.config.architectures = [type(model).__name__]
                    model.config.save_pretrained(folder)
                    torch.save(model.state_dict(), folder / "pytorch_model.bin")
                else:
                    size = sum(p.numel() * p.element_size() for p in model.parameters())
                    model.save_pretrained(folder, max_shard_size=size // 3 if form == "sharded" else "5GB")
                    shards = len(list(folder.glob("*.safetensors")))
                    self.assertEqual(shards > 1, form == "sharded")
                self.check_info(folder, model)
                yield folder

    def check_info(self, folder, model):
        """lathe info lists what transformers wrote, in the type it wrote."""
        info = self.lathe("info", folder)
        for name, tensor in model.state_dict().items():
            line = next((line for line in info.splitlines() if line.split()[:1] == [name]), "")
            self.assertIn("bf16" if tensor.dtype == torch.bfloat16 else "f32", line, name)

    def test_every_form_of_every_classifier(self):
        for name in CLASSIFIERS:
            for folder in self.forms(transformers.AutoModelForSequenceClassification, GOLDEN / name, name):
                self.check_classifier(folder, made_texts())

    def test_every_form_of_question_answering(self):
        for folder in self.forms(transformers.AutoModelForQuestionAnswering, GOLDEN / "question_answering", "qa"):
            self.check_answers(folder, made_questions())

    def test_training_goes_on_from_what_transformers_wrote_and_back(self):
        cl.write_csv(self.root / "train.csv", 64, 1)
        cl.write_csv(self.root / "dev.csv", 12, 2)
        for folder in self.forms(transformers.AutoModelForSequenceClassification, GOLDEN / "classification", "more"):
            out = self.root / f"{folder.name}-trained"
            command = cl.glue_command(out, self.root / "train.csv", self.root / "dev.csv")[1:]
            command[command.index(str(cl.MODEL))] = str(folder)
            self.lathe(*command)
            self.check_classifier(out, made_texts())


if __name__ == "__main__":
    cl.main()
