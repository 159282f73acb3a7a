// The bars of a run, on a clock that the test moves, and its output folder.
#include "lathe/app/script_run.h"

#include <gtest/gtest.h>

#include "lathe/app/four_samples_testing.h"
#include "lathe/app/screen_testing.h"
#include "lathe/io/faulty_file_system.h"
#include "lathe/io/test_folder.h"

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
  AutoModel model_ = from_pretrained(real_file_system(), kTinyModel, {Problem::kSingleLabel, {}, false});
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
