#!/usr/bin/env python3
"""The Python package with several threads, trainers and signals: what runs meanwhile, takes turns, or ends by Ctrl-C."""
import concurrent.futures
import gc
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import weakref

import command_line as cl
from python_package import PACKAGE, PackageCase, accuracy   # first: it finds lathe
from lathe import Trainer


class Threads(PackageCase):
    def test_a_child_that_uses_its_parents_trainer_is_told(self):
        trainer = Trainer(self.model(), self.arguments(), eval_dataset=self.dev)
        trainer.evaluate()
        child = os.fork()
        if child == 0:
            try:
                trainer.evaluate()
            except RuntimeError as error:
                os._exit(7 if "make it in the child" in str(error) else 1)
            os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)

    def test_ctrl_c_ends_an_evaluation(self):
        trainer = Trainer(self.model(), self.arguments(per_device_eval_batch_size=1), train_dataset=self.train,
                          eval_dataset=self.dev * 20000)
        ctrl_c = threading.Timer(1, signal.raise_signal, [signal.SIGINT])
        ctrl_c.start()
        with self.assertRaisesRegex(KeyboardInterrupt, "stopped after [0-9]+ of 240000 batches of an evaluation"):
            trainer.evaluate()
        self.assertGreater(trainer.train().global_step, 1)  # it does not hear of that any more

    def test_metrics_may_evaluate_other_rows_meanwhile(self):
        seen = []

        def metrics(eval_pred):
            seen.append((len(eval_pred.predictions), len(eval_pred.label_ids)))
            if len(eval_pred.predictions) == len(self.dev):
                trainer.evaluate(self.dev[:5])
            return accuracy(eval_pred)

        trainer = Trainer(self.model(), self.arguments(eval_strategy="epoch", num_train_epochs=2), train_dataset=self.train,
                          eval_dataset=self.dev, compute_metrics=metrics)
        trainer.train()
        self.assertEqual(seen, [(12, 12), (5, 5)] * 2)

    def test_other_threads_run_while_it_trains(self):
        trainer = Trainer(self.model(), self.arguments(num_train_epochs=60), train_dataset=self.train)
        ticks, done = [], threading.Event()

        def tick():
            while not done.is_set():
                ticks.append(time.perf_counter())
                time.sleep(0.001)

        thread = threading.Thread(target=tick)
        thread.start()
        trainer.train()
        done.set()
        thread.join()
        self.assertGreater(len(ticks), 20)

    def test_threads_take_turns_at_a_trainer(self):
        sizes, steps, others = [], [], []

        def metrics(eval_pred):
            logits, labels = eval_pred
            sizes.append((len(logits), len(labels)))
            steps.append(trainer.state.global_step)  # a callback has the turn of its thread
            if not others:
                others.append(threading.Thread(target=trainer.evaluate, args=(self.dev[:5],)))
                others[0].start()
                time.sleep(0.3)  # it waits now
            return {}

        trainer = Trainer(self.model(), self.arguments(eval_strategy="epoch"), train_dataset=self.train,
                          eval_dataset=self.dev, compute_metrics=metrics)
        trainer.train()
        others[0].join()
        self.assertEqual(sizes, [(12, 12)] * 3 + [(5, 5)])
        self.assertEqual(steps, [6, 12, 18, 18])

    def test_trainers_of_one_model_share_nothing(self):
        model = self.model()
        settings = [{"seed": seed, "freeze_base_model": seed == 2, "output_dir": self.root / str(seed)} for seed in (1, 2, 3)]

        def losses(model, more):
            trainer = Trainer(model, self.arguments(**more), train_dataset=self.train)
            trainer.train()
            return [line["loss"] for line in trainer.state.log_history if "loss" in line]

        with concurrent.futures.ThreadPoolExecutor(3) as threads:
            found = list(threads.map(losses, [model] * 3, settings))
        self.assertEqual(found, [losses(self.model(), more) for more in settings])

    def test_a_second_trainer_keeps_out_of_a_folder_that_one_trains_into(self):
        second = Trainer(self.model(), self.arguments(), train_dataset=self.train)

        def metrics(_):
            with self.assertRaisesRegex(ValueError, f"another run.* trains into {self.root / 'out'}"):
                second.train()
            return {}

        Trainer(self.model(), self.arguments(eval_strategy="epoch"), train_dataset=self.train, eval_dataset=self.dev,
                compute_metrics=metrics).train()
        self.assertEqual(second.train().global_step, 18)  # its turn

    def test_a_trainer_that_its_metrics_refer_to_is_collected(self):
        def evaluated():
            def metrics(_):
                return {"step": trainer.state.global_step}

            trainer = Trainer(self.model(), self.arguments(), eval_dataset=self.dev, compute_metrics=metrics)
            self.assertEqual(trainer.evaluate()["eval_step"], 0)
            return weakref.ref(trainer)

        trainer = evaluated()
        gc.collect()
        self.assertIsNone(trainer())

    def test_ctrl_c_ends_the_wait_for_another_thread(self):
        begun, go_on = threading.Event(), threading.Event()

        def metrics(_):
            begun.set()
            go_on.wait()
            return {}

        trainer = Trainer(self.model(), self.arguments(), eval_dataset=self.dev, compute_metrics=metrics)
        other = threading.Thread(target=trainer.evaluate)
        other.start()
        begun.wait()
        ctrl_c = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        late = threading.Timer(10, go_on.set)  # where the wait does not end
        for timer in (ctrl_c, late):
            timer.start()
        try:
            with self.assertRaisesRegex(KeyboardInterrupt, "another thread has this trainer"):
                trainer.state
        finally:
            late.cancel()
            go_on.set()
            other.join()

    def test_ctrl_c_writes_a_checkpoint_and_raises(self):
        script = f"""if True:
            import sys; sys.path[:0] = [{str(PACKAGE)!r}, {str(cl.ROOT / "tests" / "e2e")!r}]
            import pathlib, python_threads_test as t
            case = t.Threads(); case.setUp(); case.root = pathlib.Path({str(self.root)!r})
            trainer = t.Trainer(case.model(), case.arguments(num_train_epochs=100000), train_dataset=case.train)
            try: trainer.train()
            except KeyboardInterrupt as stop: print("stopped:", stop)"""
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if "'loss'" in line:
                    break
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
        self.assertEqual(process.returncode, 0)
        self.assertRegex(rest, "stopped: .*checkpoint")
        self.assertTrue(list((self.root / "out").glob("checkpoint-*/lathe_state.safetensors")), rest)

    def test_ctrl_c_in_compute_metrics_of_a_training_writes_a_checkpoint_too(self):
        calls = []

        def metrics(prediction):
            calls.append(len(prediction.predictions))
            if len(calls) == 2:
                signal.raise_signal(signal.SIGINT)
            return accuracy(prediction)

        settings = {"eval_strategy": "epoch", "metric_for_best_model": "accuracy"}
        trainer = Trainer(self.model(), self.arguments(**settings), train_dataset=self.train, eval_dataset=self.dev,
                          compute_metrics=metrics)
        with self.assertRaisesRegex(KeyboardInterrupt, "interrupted after step 12; its checkpoint is .*checkpoint-12"):
            trainer.train()
        self.assertTrue((self.root / "out" / "checkpoint-12" / "lathe_state.safetensors").is_file())
        self.assertEqual(calls, [12, 12, 12])  # it is asked again for what the stop took
        self.assertEqual([line["epoch"] for line in trainer.state.log_history if "eval_accuracy" in line], [1, 2])
        self.assertEqual(trainer.train().global_step, 18)  # that does not hear of it any more
        calls[:] = [12]
        with self.assertRaises(KeyboardInterrupt):  # after a training nothing is lost
            trainer.evaluate()


if __name__ == "__main__":
    cl.on_one_core()
    cl.main()
