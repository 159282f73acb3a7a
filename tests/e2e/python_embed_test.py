#!/usr/bin/env python3
"""lathe.SentenceTransformerTrainer and lathe.CrossEncoderTrainer: what `lathe embed` and `lathe rerank` compute, under the
names of sentence-transformers."""
import json

import command_line as cl
import python_package  # first: it finds lathe
import numpy as np
from embed_runs_test import pairs as random_pairs
from rerank_test import lists, write_lines
from lathe import (BatchSamplers, CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments, SentenceTransformer,
                   SentenceTransformerTrainer, SentenceTransformerTrainingArguments, losses)
from lathe import cross_encoder
from lathe.evaluation import (BinaryClassificationEvaluator, EmbeddingSimilarityEvaluator, InformationRetrievalEvaluator,
                              TripletEvaluator)

MODEL = cl.GOLDEN / "masked_lm"
SCORES = [0.1, 0.9, 0.4, 0.6, 0.2, 0.8, 0.3, 0.7, 0.5, 1.0, 0.0, 0.55]
SETTINGS = {"per_device_train_batch_size": 8, "learning_rate": 1e-3, "use_cpu": True, "logging_steps": 1, "num_train_epochs": 2,
            "save_strategy": "no"}


class TrainerCase(cl.CommandsCase):
    def setUp(self):
        super().setUp()
        self.rows = [{"anchor": a, "positive": b, "negative": c} for a, b, c in random_pairs(32, 1)]
        self.dev = [{"sentence1": a, "sentence2": b, "score": s} for (a, b, _), s in zip(random_pairs(12, 2), SCORES)]

    def program(self, command, folder, rows, dev, *more):
        files = [str(write_lines(self.root / f"{folder}-{name}.jsonl", part)) for name, part in (("train", rows), ("dev", dev))]
        self.works([cl.program(), command, "--model_name_or_path", str(MODEL), "--train_file", files[0], "--validation_file",
                    files[1], "--do_train", "--do_eval", "--output_dir", str(self.root / folder),
                    *(f"--{name}={value}" for name, value in SETTINGS.items()), *more])
        return self.root / folder

    def check_alike(self, trainer, folder):
        """The losses, the metrics and the weights of a run of the program."""
        trainer.train()
        found = trainer.evaluate()
        trainer.save_model(str(self.root / "python"))
        state, results = cl.read(folder / "trainer_state.json"), cl.read(folder / "eval_results.json")
        of = lambda history: [(entry["loss"], entry["grad_norm"]) for entry in history if "loss" in entry]
        self.assertGreater(len(of(state["log_history"])), 3)
        self.assertEqual(of(trainer.state.log_history), of(state["log_history"]))
        timeless = {name for name in found if not name.endswith(("_runtime", "_per_second"))}
        self.assertGreater(len(timeless), 2)
        for name in timeless:
            self.assertEqual(found[name], results[name], name)
        self.assertEqual((self.root / "python" / "model.safetensors").read_bytes(), (folder / "model.safetensors").read_bytes())


class Sentences(TrainerCase):
    def arguments(self, **more):
        return SentenceTransformerTrainingArguments(str(self.root / "out"), **{**SETTINGS, **more})

    def model(self):
        return SentenceTransformer(MODEL, device="cpu")

    def trainer(self, model, rows=None, loss=None, **more):
        return SentenceTransformerTrainer(model, self.arguments(), train_dataset=self.rows if rows is None else rows,
                                          loss=loss, **more)

    def test_it_is_the_program(self):
        prompts = {"anchor": "query: ", "positive": "text: "}
        folder = self.program("embed", "embed", self.rows, self.dev, "--batch_sampler", "no_duplicates", "--prompts",
                              json.dumps(prompts), "--scale", "15", "--matryoshka_dims", "32,8")
        model = self.model()
        loss = losses.MatryoshkaLoss(model, losses.MultipleNegativesRankingLoss(model, scale=15.0), [32, 8])
        self.check_alike(SentenceTransformerTrainer(
            model, self.arguments(batch_sampler=BatchSamplers.NO_DUPLICATES, prompts=prompts),
            train_dataset={name: [row[name] for row in self.rows] for name in self.rows[0]}, eval_dataset=self.dev, loss=loss),
            folder)

    def test_each_loss_is_its_flags(self):
        model = self.model()
        pairs = [{"a": row["anchor"], "b": row["positive"]} for row in self.rows]
        scored = [{**pair, "score": SCORES[i % 12]} for i, pair in enumerate(pairs)]
        labelled = [{**pair, "label": i % 2} for i, pair in enumerate(pairs)]
        for loss, rows, flags in (
                (losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=3), self.rows,
                 ["--loss", "CachedMultipleNegativesRankingLoss", "--mini_batch_size", "3"]),
                (losses.MultipleNegativesSymmetricRankingLoss(model), pairs, ["--symmetric"]),
                (losses.CoSENTLoss(model, scale=10), scored, ["--loss", "CoSENTLoss", "--scale", "10"]),
                (losses.CosineSimilarityLoss(model), scored, ["--loss", "CosineSimilarityLoss"]),
                (losses.ContrastiveLoss(model, margin=0.3, size_average=False), labelled,
                 ["--loss", "ContrastiveLoss", "--margin", "0.3", "--size_average", "false"]),
                (losses.TripletLoss(model, triplet_margin=2), self.rows, ["--loss", "TripletLoss", "--triplet_margin", "2"])):
            with self.subTest(loss=type(loss).__name__):
                folder = self.program("embed", type(loss).__name__, rows, self.dev, *flags)
                self.check_alike(SentenceTransformerTrainer(self.model(), self.arguments(), train_dataset=rows,
                                                            eval_dataset=self.dev, loss=loss), folder)

    def test_the_model_gives_what_was_learnt(self):
        model, texts = self.model(), [row["anchor"] for row in self.dev_texts()]
        before = model.encode(texts)
        trainer = self.trainer(model)
        np.testing.assert_array_equal(model.encode(texts), before)
        trainer.train()
        learnt = model.encode(texts)
        self.assertGreater(np.abs(learnt - before).max(), 1e-3)
        model.save_pretrained(self.root / "saved")
        np.testing.assert_array_equal(SentenceTransformer(self.root / "saved", device="cpu").encode(texts), learnt)
        more = self.trainer(model, self.dev, losses.CoSENTLoss(model))  # begins with them
        np.testing.assert_array_equal(model.encode(texts), learnt)
        more.train()
        self.assertGreater(np.abs(model.encode(texts) - learnt).max(), 1e-4)

    def dev_texts(self):
        return [{"anchor": row["sentence1"]} for row in self.dev]

    def test_evaluators_say_what_columns_do(self):
        model = self.model()
        one, two = ([row[name] for row in self.dev] for name in ("sentence1", "sentence2"))
        evaluators = [EmbeddingSimilarityEvaluator(one, two, SCORES, name="dev"), lambda model: 0.5]
        trainer = SentenceTransformerTrainer(model, self.arguments(eval_strategy="epoch", metric_for_best_model="dev_spearman_cosine"),
                                             train_dataset=self.rows, evaluator=evaluators)
        trainer.train()
        found = trainer.evaluate()
        for name in ("pearson_cosine", "spearman_cosine"):
            self.assertAlmostEqual(found[f"eval_dev_{name}"], found[f"eval_{name}"], delta=1e-6)
        self.assertEqual(found["eval_evaluator"], 0.5)
        self.assertEqual(evaluators[0].primary_metric, "dev_spearman_cosine")
        self.assertEqual(trainer.state.best_metric, max(e["eval_dev_spearman_cosine"] for e in trainer.state.log_history
                                                        if "eval_dev_spearman_cosine" in e))
        labels = [int(score > 0.5) for score in SCORES]
        for evaluator, rows, metric in (
                (BinaryClassificationEvaluator(one, two, labels), [{"a": a, "b": b, "label": l} for a, b, l in zip(one, two, labels)],
                 "cosine_ap"),
                (TripletEvaluator(one, two, one[::-1]), [{"a": a, "b": b, "c": c} for a, b, c in zip(one, two, one[::-1])],
                 "cosine_accuracy")):
            self.assertAlmostEqual(evaluator(model)[metric], trainer.evaluate(rows)[f"eval_{metric}"], delta=1e-6)

    def test_a_search(self):
        model = self.model()
        texts = [row["anchor"] for row in self.rows]
        search = InformationRetrievalEvaluator({i: text for i, text in enumerate(texts[:5])},
                                               {f"d{i}": text for i, text in enumerate(texts)},
                                               {i: {f"d{i}"} for i in range(4)} | {4: {"d5"}}, name="s")
        found = SentenceTransformerTrainer(model, self.arguments(), train_dataset=self.rows, evaluator=search).evaluate()
        self.assertAlmostEqual(found["eval_s_cosine_accuracy@1"], 0.8, delta=1e-9)
        self.assertEqual(search.primary_metric, "s_cosine_ndcg@10")
        near = model.similarity(model.encode(texts[:2]), model.encode(texts))
        self.assertEqual(near.shape, (2, 32))
        self.assertEqual(near.argmax(axis=1).tolist(), [0, 1])

    def test_what_it_refuses(self):
        model = self.model()
        for rows, message in (([{"a": "x", "b": ""}], r"train_dataset:1: column 'b' is empty, but 'a' has the text 'x'"),
                              ([{"a": "x"}], "train_dataset: found 1 columns of texts"),
                              ([], "train_dataset: found no rows"), (["x"], "row 0: found 'x', expected a dict"),
                              ([{"a": "x", "b": "\ud800"}], "half of a surrogate pair"),
                              ({"a": ["x"], "b": ["y", "z"]}, "expected equal lengths"),
                              ([{"a": "x", "b": "y", "c": object()}], "expected texts and numbers")):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                self.trainer(model, rows)
        with self.assertRaisesRegex(ValueError, "neither train_dataset nor eval_dataset"):
            SentenceTransformerTrainer(model)
        with self.assertRaisesRegex(ValueError, "expected one of label"):
            self.trainer(model, loss=losses.CoSENTLoss(model))
        with self.assertRaisesRegex(ValueError, "the 32 numbers of"):
            self.trainer(model, loss=losses.MatryoshkaLoss(model, losses.MultipleNegativesRankingLoss(model), [64]))
        with self.assertRaisesRegex(NotImplementedError, "callbacks is not there"):
            self.trainer(model, callbacks=[print])
        with self.assertRaisesRegex(NotImplementedError, "tokenizer is not there: texts are tokenised with the model's own"):
            self.trainer(model, tokenizer="other")
        with self.assertRaisesRegex(ValueError, "the corpus has none of the relevant documents"):
            SentenceTransformerTrainer(model, evaluator=InformationRetrievalEvaluator({1: "a"}, {2: "b"}, {1: {3}}))
        with self.assertRaisesRegex(NotImplementedError, "n_dims_per_step"):
            losses.MatryoshkaLoss(model, losses.CoSENTLoss(model), [8], n_dims_per_step=1)
        with self.assertRaisesRegex(ValueError, "save_pretrained: nothing was trained"):
            model.save_pretrained(self.root / "nothing")


class Pairs(TrainerCase):
    def setUp(self):
        super().setUp()
        self.rows, self.dev = lists(24, 1), lists(6, 2)

    def arguments(self, **more):
        return CrossEncoderTrainingArguments(str(self.root / "out"), **{**SETTINGS, "learning_rate": 1e-2, **more})

    def test_it_is_the_program(self):
        for name, loss, rows, dev in (
                ("lists", None, self.rows, self.dev),
                ("mse", cross_encoder.losses.MSELoss, [{"a": r["query"], "b": r["documents"][0], "score": 3.5 * i}
                                                       for i, r in enumerate(self.rows)], None)):
            with self.subTest(name):
                flags = [] if loss is None else ["--loss", loss.__name__]
                folder = self.program("rerank", name, rows, dev or rows, "--learning_rate", "1e-2", *flags)
                model = CrossEncoder(MODEL, device="cpu")
                self.check_alike(CrossEncoderTrainer(model, self.arguments(), train_dataset=rows, eval_dataset=dev or rows,
                                                     loss=loss and loss(model)), folder)

    def test_the_model_ranks(self):
        model = CrossEncoder(MODEL, num_labels=1, device="cpu")
        samples = [{"query": r["query"], "positive": [d for d, l in zip(r["documents"], r["labels"]) if l],
                    "negative": [d for d, l in zip(r["documents"], r["labels"]) if not l]} for r in self.dev]
        evaluator = cross_encoder.evaluation.CrossEncoderRerankingEvaluator(samples, name="dev")
        trainer = CrossEncoderTrainer(model, self.arguments(num_train_epochs=6), train_dataset=self.rows, evaluator=evaluator)
        trainer.train()
        found = trainer.evaluate()
        self.assertAlmostEqual(found["eval_dev_ndcg@10"], 1.0, delta=1e-9)
        self.assertAlmostEqual(found["eval_ndcg@10"], 1.0, delta=1e-9)
        query, documents = self.dev[0]["query"], self.dev[0]["documents"]
        ranked = model.rank(query, documents, return_documents=True)
        self.assertEqual([entry["text"] for entry in ranked], [documents[entry["corpus_id"]] for entry in ranked])
        self.assertEqual(ranked[0]["corpus_id"], self.dev[0]["labels"].index(1))
        self.assertEqual([entry["corpus_id"] for entry in model.rank(query, documents, top_k=1)], [ranked[0]["corpus_id"]])
        scores = model.predict([(query, document) for document in documents])
        self.assertTrue((scores > 0).all() and (scores < 1).all())
        logits = model.predict([(query, document) for document in documents], activation_fn="Identity")
        np.testing.assert_allclose(scores, 1 / (1 + np.exp(-logits)), atol=1e-6)
        self.assertEqual(model.predict((query, documents[0])), scores[0])
        model.save_pretrained(self.root / "saved")
        again = CrossEncoder(self.root / "saved", device="cpu")
        np.testing.assert_array_equal(again.predict([(query, document) for document in documents]), scores)

    def test_the_activation_that_is_asked_for_stays(self):
        model = CrossEncoder(MODEL, num_labels=1, activation_fn="Identity", device="cpu")
        CrossEncoderTrainer(model, self.arguments(num_train_epochs=1), train_dataset=self.rows).train()
        model.save_pretrained(self.root / "saved")
        pair = (self.dev[0]["query"], self.dev[0]["documents"][0])
        self.assertEqual(model.predict(pair), model.predict(pair, activation_fn="Identity"))
        self.assertEqual(CrossEncoder(self.root / "saved", device="cpu").predict(pair), model.predict(pair))

    def test_classes(self):
        model = CrossEncoder(MODEL, num_labels=3, device="cpu")
        rows = [{"a": r["query"], "b": r["documents"][0], "label": i % 3} for i, r in enumerate(self.rows)]
        trainer = CrossEncoderTrainer(model, self.arguments(), train_dataset=rows, eval_dataset=rows)
        trainer.train()
        self.assertIn("eval_f1_macro", trainer.evaluate())
        pairs, labels = [(r["a"], r["b"]) for r in rows], [r["label"] for r in rows]
        self.assertEqual(model.predict(pairs).shape, (24, 3))
        np.testing.assert_allclose(model.predict(pairs, apply_softmax=True).sum(axis=1), 1, atol=1e-6)
        evaluator = cross_encoder.evaluation.CrossEncoderClassificationEvaluator(pairs, labels)
        self.assertAlmostEqual(evaluator(model)["f1_macro"], trainer.evaluate()["eval_f1_macro"], delta=1e-9)
        with self.assertRaisesRegex(ValueError, "expected a model|num_labels=1"):
            model.rank("a", ["b"])

    def test_what_it_refuses(self):
        model = CrossEncoder(MODEL, device="cpu")
        for rows, message in (([{"a": "x", "b": "y"}], "and no label"), ([{"a": "x", "b": "y", "label": 7}], "expected 0 to 1"),
                              ([{"a": "x", "b": ["y", "z"], "label": [1]}], "expected a label for each document")):
            with self.subTest(message), self.assertRaisesRegex((ValueError, FileNotFoundError), message):
                CrossEncoderTrainer(model, self.arguments(), train_dataset=rows)
        with self.assertRaisesRegex(ValueError, "expected two texts"):
            model.predict([("a", "b", "c")])
        with self.assertRaisesRegex(ValueError, "activation_fn: found 'Tanh'"):
            model.predict([("a", "b")], activation_fn="Tanh")
        with self.assertRaisesRegex(NotImplementedError, "pos_weight"):
            cross_encoder.losses.BinaryCrossEntropyLoss(model, pos_weight=2)


if __name__ == "__main__":
    cl.main()
