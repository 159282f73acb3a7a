// The bars of a run, on a clock that the test moves, and its output folder.
#include "lathe/app/commands/script_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "lathe/app/screen_testing.h"
#include "lathe/core/test_folder.h"
#include "lathe/io/faulty_file_system_testing.h"
#include "lathe/train/four_samples_testing.h"

namespace lathe {
namespace {

class Bars : public testing::Test {
 protected:
  Bars() {
    args_.output_dir = folder_ / "out";
    args_.device = "cpu";
    args_.threads = 1;
    args_.per_device_train_batch_size = args_.per_device_eval_batch_size = 1;
    args_.max_steps = 4;
    args_.save_steps = 2;
  }

  /// Every update and every batch of an evaluation takes two seconds.
  Trainer trainer(ScriptRun& run) {
    TrainerHooks hooks = run.hooks();
    hooks.on_step = [this, show = hooks.on_step](int64_t step, int64_t steps, std::optional<double> loss) {
      screen_.now += 2;
      show(step, steps, loss);
    };
    hooks.on_evaluation_step = [this, show = hooks.on_evaluation_step](int64_t batch, int64_t batches) {
      if (batch > 0) screen_.now += 2;
      show(batch, batches);
    };
    return Trainer(run.open_device(), model_, args_, &data_, &data_, hooks);
  }

  bool shown(const std::string& text) const { return screen_.err.find(text) != std::string::npos; }

  TestFolder folder_;
  TokenizedDataset data_ = four_samples();
  AutoModel model_ = from_pretrained(real_file_system(), kTinyModel, {single_label, {}, false});
  TrainingArguments args_;
  Screen screen_;
  Terminal terminal_{LogLevel::kInfo, true, screen_.port()};
};

TEST_F(Bars, OfAnEvaluationBeginsBeforeItsFirstBatch) {
  ScriptRun run(terminal_, args_, {});
  trainer(run).evaluate(data_);
  EXPECT_TRUE(shown("evaluation:   0%|")) << screen_.err;
  EXPECT_TRUE(shown("1/4 [00:02<00:06, 2.00s/it]")) << screen_.err;
  EXPECT_TRUE(shown("4/4 [00:08<00:00, 2.00s/it]")) << screen_.err;
}

TEST_F(Bars, OfATrainingHasNoLossBeforeOneIsKnown) {
  ScriptRun run(terminal_, args_, {});
  Trainer t = trainer(run);
  run.train(t, "", data_.size());
  EXPECT_TRUE(shown("0/4 [00:00<?, ?it/s]")) << screen_.err;
  EXPECT_TRUE(shown("1/4 [00:02<00:06, 2.00s/it]")) << screen_.err;
  EXPECT_TRUE(shown("2/4 [00:04<00:04, 2.00s/it, loss=")) << screen_.err;
}

TEST_F(Bars, WhatIsWrittenAfterTheTrainingIsProvenToBeOfThisProcess) {
  const auto note = std::filesystem::path(folder_ / "out") / (".tmp-lathe-" + std::to_string(getpid()));
  {
    ScriptRun run(terminal_, args_, {});
    Trainer t = trainer(run);
    run.train(t, "", data_.size());
    EXPECT_TRUE(std::filesystem::exists(note));
  }
  EXPECT_FALSE(std::filesystem::exists(note));
}

TEST_F(Bars, OfAResumedTrainingBeginsWhereThatDoes) {
  ScriptRun run(terminal_, args_, {});
  Trainer t = trainer(run);
  run.train(t, "", data_.size());
  screen_.err.clear();
  run.train(t, folder_ / "out/checkpoint-2", data_.size());
  EXPECT_FALSE(shown("0/4 ")) << screen_.err;
  EXPECT_TRUE(shown("2/4 [00:00<?, ?it/s]")) << screen_.err;
  EXPECT_TRUE(shown("3/4 [00:02<00:02, 2.00s/it]")) << screen_.err;
}

TEST_F(Bars, TheEndSaysWhereAllIsAndWhatIsNext) {
  args_.output_dir = folder_ / "it's out";
  args_.do_train = true;
  args_.report_to = {"html"};
  ScriptRun run(terminal_, args_, {});
  Trainer t = trainer(run);
  run.carry_out([&] {
    run.train(t, "", data_.size());
    run.write_predictions("predictions.txt", "x");
  });
  screen_.err.clear();
  run.say_results("'a text'");
  const std::string out = folder_ / "it's out", quoted = "'" + folder_ / "it" + "'\\''s out'";
  EXPECT_EQ(screen_.err, "[INFO] model: " + out + "\n[INFO] metrics: " + out +
                             "/all_results.json\n[INFO] predictions: " + out +
                             "/predictions.txt\n[INFO] report: " + out +
                             "/report.html\n[INFO] next: lathe predict " + quoted + " 'a text'\n");
}

TEST(ScriptRun, AnExampleIsAShortTextForTheShell) {
  TextDataset data;
  const auto of = [&](const std::string& text) {
    data.first = {text};
    return example_of(data);
  };
  EXPECT_EQ(of("word"), "word");
  EXPECT_EQ(of(" it's\n two  lines "), "'it'\\''s two lines'");
  EXPECT_EQ(of(""), "'a text'");
  std::string words;
  for (int i = 0; i < 40; ++i) words += "ninechars ";
  EXPECT_EQ(of(words), "'ninechars ninechars ninechars ninechars ninechars ninechars'");
  EXPECT_EQ(of(std::string(100, 'x')), std::string(60, 'x'));
  data.second = {"it\\is"};
  EXPECT_EQ(of("it's"), "'it'\\''s' 'it\\is'");
  data.first = {"it's", "plain one", "another"};
  data.second = {"a", "b", "c"};
  EXPECT_EQ(example_of(data), "'plain one' b");
}

/// Evaluates and saves at steps 2 and 4 on a disk of `room` bytes; the model is best at step 2.
class FullDisk : public Bars {
 protected:
  FullDisk() {
    args_.eval_strategy = "steps";
    args_.eval_steps = 2;
    args_.metric_for_best_model = "score";
    args_.greater_is_better = true;
  }

  /// What it ends with; empty where all is saved.
  std::string error_with(int64_t room) {
    screen_.err.clear();
    std::filesystem::remove_all(folder_ / "out");
    FaultyFileSystem fs(real_file_system(), {.disk_bytes = room});
    ScriptRun run(terminal_, args_, {}, nullptr, fs);
    TrainerHooks hooks = run.hooks();
    hooks.compute_metrics = [score = 1.0](const TokenizedDataset&, const Predictions&) mutable {
      return MetricValues{{"score", score /= 2}};
    };
    hooks.should_stop = [&] { return stops_; };
    AutoModel model = from_pretrained(real_file_system(), kTinyModel, {single_label, {}, false});
    Trainer trainer(run.open_device(), model, args_, &data_, &data_, hooks, fs);
    try {
      run.train(trainer, "", data_.size());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), is_stop(error.what()) ? ErrorCode::kInterrupted : ErrorCode::kIo);
      return error.what();
    }
    return "";
  }

  std::string weights(const std::string& name) const {
    Result<std::string> found = real_file_system().read(folder_ / ("out/" + name + "model.safetensors"));
    return found.ok() ? found.value() : "";
  }

  static bool is_stop(const std::string& error) { return error.starts_with("interrupted after step "); }

  bool stops_ = false;  // after its first update
  static constexpr int64_t kStep = 1 << 15, kEnough = int64_t{8} << 20;
};

TEST_F(FullDisk, AModelIsSavedWhereItsLastCheckpointDoesNotFit) {
  for (const bool best : {false, true}) {
    args_.load_best_model_at_end = best;
    ASSERT_EQ(error_with(kEnough), "");
    const std::string model = weights("");
    ASSERT_EQ(model, weights(best ? "checkpoint-2/" : "checkpoint-4/"));
    int saved = 0, lost = 0;
    std::string error = "?";
    for (int64_t room = 0; !error.empty(); room += kStep) {
      error = error_with(room);
      const std::string found = weights("");
      EXPECT_EQ(shown("the run failed after its last step; only the trained model is in " + folder_ / "out"),
                !error.empty() && !found.empty());
      EXPECT_TRUE(found.empty() || found == model) << room;
      const bool of_the_last = error.starts_with(folder_ / "out/checkpoint-4: found ");
      EXPECT_TRUE(of_the_last || found.empty() || error.empty()) << error;
      (found.empty() ? lost : saved) += of_the_last;
    }
    EXPECT_GT(saved, 2) << best;
    EXPECT_GT(lost, 2) << best;
  }
}

TEST_F(FullDisk, AModelIsSavedWhereTheCheckpointOfAStopDoesNotFit) {
  stops_ = true;
  ASSERT_TRUE(is_stop(error_with(kEnough)));
  EXPECT_EQ(weights(""), "");
  const std::string model = weights("checkpoint-1/");
  int saved = 0, lost = 0;
  for (int64_t room = 0;; room += kStep) {
    const std::string error = error_with(room);
    if (is_stop(error)) break;
    const std::string found = weights("");
    EXPECT_TRUE(found.empty() || found == model) << room;
    EXPECT_TRUE(error.starts_with(folder_ / "out/checkpoint-1: found ") || found.empty()) << error;
    EXPECT_EQ(shown("stopped after step 1 without a checkpoint; only the model is in " + folder_ / "out"),
              !found.empty());
    ++(found.empty() ? lost : saved);
  }
  EXPECT_GT(saved, 2);
  EXPECT_GT(lost, 2);
}

TEST_F(FullDisk, NoModelIsSavedOfARunThatDidNotBegin) {
  ASSERT_EQ(error_with(kEnough), "");
  std::filesystem::remove(folder_ / "out/model.safetensors");
  std::filesystem::remove(folder_ / "out/checkpoint-4/lathe_state.safetensors");
  std::filesystem::create_directory(folder_ / "out/checkpoint-4/lathe_state.safetensors");
  ScriptRun run(terminal_, args_, {});
  Trainer again = trainer(run);
  try {
    run.train(again, folder_ / "out/checkpoint-4", data_.size());
    ADD_FAILURE() << "went on from half a checkpoint";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
  }
  EXPECT_EQ(weights(""), "");
}

TEST_F(FullDisk, IsToldBeforeItIsFull) {
  struct Case {
    std::string strategy;
    int64_t limit;
    std::string wanted;
  };
  for (const auto& [strategy, limit, wanted] :
       {Case{"steps", 0, "4 checkpoints and the model take "},
        Case{"steps", 1, "2 checkpoints and the model "},
        Case{"epoch", 0, "1 checkpoint and the model take "}, Case{"no", 0, "the model takes "}}) {
    args_.save_strategy = strategy;
    args_.save_steps = 1;
    args_.save_total_limit = limit;
    int told = 0;
    for (int64_t room = 0;; room += 4 * kStep) {
      const std::string error = error_with(room);
      const size_t at = screen_.err.find(" MB free on the disk, " + wanted);
      if (at == std::string::npos) {
        EXPECT_TRUE(error.empty() || limit > 0) << error;  // this disk gets nothing back from what is deleted
        break;
      }
      EXPECT_LT(at, screen_.err.find("evaluation:")) << screen_.err;
      ++told;
    }
    EXPECT_GT(told, 1);
    EXPECT_EQ(error_with(kEnough), "");
    EXPECT_FALSE(shown("MB free on the disk")) << screen_.err;
  }
}

TEST(OutputFolder, IsTakenAwayThroughTheFileSystem) {
  const TestFolder folder;
  Screen screen;
  Terminal terminal{LogLevel::kInfo, true, screen.port()};
  TrainingArguments args;
  args.output_dir = folder / "above/out";
  args.do_train = true;
  int64_t made = 0;
  {
    FaultyFileSystem fs(real_file_system(), {});
    {
      ScriptRun run(terminal, args, {}, nullptr, fs);
      run.prepare_output();
      made = fs.operations();
    }
    EXPECT_EQ(fs.operations(), made + 2);
    EXPECT_FALSE(real_file_system().exists(folder / "above"));
  }
  FaultyFileSystem fs(real_file_system(), {.crash_at = made});
  ScriptRun(terminal, args, {}, nullptr, fs).prepare_output();
  EXPECT_TRUE(real_file_system().is_directory(folder / "above/out"));
}

}  // namespace
}  // namespace lathe
