// Which checkpoint a run takes for the best one, by metrics that a test makes up.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "lathe/backends/register.h"
#include "lathe/core/test_folder.h"
#include "lathe/train/four_samples_testing.h"
#include "lathe/train/trainer.h"

namespace lathe {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class BestModel : public testing::Test {
 protected:
  BestModel() {
    args_.output_dir = folder_ / "out";
    args_.per_device_train_batch_size = 4;
    args_.eval_strategy = args_.save_strategy = "steps";
    args_.eval_steps = 1;
    args_.save_steps = 1;
    args_.metric_for_best_model = "score";
    args_.greater_is_better = true;
  }

  /// One update and one evaluation for each score.
  TrainerState train(const std::vector<double>& scores, const std::string& resume_from = "") {
    size_t next = 0;
    TrainerHooks hooks;
    hooks.compute_metrics = [&](const TokenizedDataset&, const Predictions&) {
      return MetricValues{{*args_.metric_for_best_model, scores.at(next++)}};
    };
    hooks.should_stop = [&] { return stop_ && next == scores.size(); };
    hooks.message = [&](LogLevel, const std::string& text) { said_ += text + "\n"; };
    args_.max_steps += static_cast<int64_t>(scores.size());
    AutoModel model = from_pretrained(real_file_system(), kTinyModel, {single_label, {}, false});
    Trainer trainer(*backend_, model, args_, &data_, &data_, hooks);
    trainer.train(resume_from);
    trainer.save_model(folder_ / "last");
    return trainer.state();
  }

  std::string weights(const std::string& folder) const {
    return real_file_system().read(folder_ / (folder + "/model.safetensors")).value();
  }

  bool is_there(const std::string& checkpoint) const {
    return std::filesystem::is_directory(join_path(*args_.output_dir, checkpoint));
  }

  TestFolder folder_;
  std::unique_ptr<Backend> backend_ = open_device("cpu", {1});
  TokenizedDataset data_ = four_samples();
  TrainingArguments args_ = [] {
    TrainingArguments args;
    args.max_steps = 0;
    return args;
  }();
  bool stop_ = false;  // after the last score
  std::string said_;
};

TEST_F(BestModel, IsTheLastBestThatWasSaved) {
  args_.save_steps = 2;
  args_.load_best_model_at_end = true;
  const TrainerState state = train({0.1, 0.5, 0.9, 0.4});
  EXPECT_EQ(state.best_metric, 0.9);
  EXPECT_EQ(state.best_global_step, 3);
  EXPECT_EQ(state.best_model_checkpoint, folder_ / "out/checkpoint-2");
  EXPECT_NE(said_.find("loaded the best model from " + folder_ / "out/checkpoint-2"), std::string::npos)
      << said_;
  EXPECT_TRUE(weights("last") == weights("out/checkpoint-2"));
  EXPECT_FALSE(weights("last") == weights("out/checkpoint-4"));
}

TEST_F(BestModel, IsTheFirstOfEqualOnesGreatestOrLeast) {
  for (const bool greater : {true, false}) {
    args_.greater_is_better = greater;
    args_.max_steps = 0;
    const double better = greater ? 0.9 : 0.1, worse = 1 - better;
    const TrainerState state = train({0.5, worse, better, better});
    EXPECT_EQ(state.best_global_step, 3) << greater;
    EXPECT_EQ(state.best_metric, better);
  }
}

TEST_F(BestModel, IsTheGreatestOrOfLossesTheLeastWhereNothingIsSaid) {
  args_.greater_is_better.reset();
  for (const auto& [metric, step] : {std::pair{"score", 2}, {"score_loss", 3}}) {
    args_.metric_for_best_model = metric;
    args_.max_steps = 0;
    EXPECT_EQ(train({0.5, 0.9, 0.1}).best_global_step, step) << metric;
  }
}

TEST_F(BestModel, IsNoneWhereTheBestWasNotSaved) {
  args_.save_steps = 2;
  const TrainerState state = train({0.9, 0.1, 0.1, 0.1});
  EXPECT_EQ(state.best_global_step, 1);
  EXPECT_EQ(state.best_model_checkpoint, std::nullopt);
}

TEST_F(BestModel, IsNoneThatWasSavedBecauseTheRunWasStopped) {
  args_.save_steps = 2;
  args_.load_best_model_at_end = true;
  args_.max_steps = 1;  // one more than there are scores
  stop_ = true;
  EXPECT_THROW(train({0.1, 0.5, 0.9}), Error);
  EXPECT_TRUE(is_there("checkpoint-3"));
  stop_ = false;
  args_.max_steps = 3;
  const TrainerState state = train({0.4}, folder_ / "out/checkpoint-3");
  EXPECT_EQ(state.best_global_step, 3);
  EXPECT_EQ(state.best_model_checkpoint, folder_ / "out/checkpoint-2");
}

TEST_F(BestModel, IsNeverOneWhoseMetricIsNotFinite) {
  const TrainerState state = train({kNan, 0.3, std::numeric_limits<double>::infinity(), 0.2});
  EXPECT_EQ(state.best_metric, 0.3);
  EXPECT_EQ(state.best_model_checkpoint, folder_ / "out/checkpoint-2");
}

TEST_F(BestModel, IsKnownAgainInAFolderThatWasMovedAndIsSpelledOtherwise) {
  args_.save_total_limit = 2;
  train({0.9, 0.1, 0.1});
  std::filesystem::rename(folder_ / "out", folder_ / "moved");
  args_.output_dir = folder_ / "." + "/moved";
  const TrainerState state = train({0.1, 0.1}, folder_ / "moved/checkpoint-3/");
  EXPECT_EQ(state.best_model_checkpoint, join_path(*args_.output_dir, "checkpoint-1"));
  EXPECT_TRUE(is_there("checkpoint-1"));
  EXPECT_FALSE(is_there("checkpoint-3"));
  EXPECT_TRUE(is_there("checkpoint-5"));
}

TEST_F(BestModel, IsForgottenWhereItIsGone) {
  train({0.9, 0.1});
  std::filesystem::remove_all(folder_ / "out/checkpoint-1");
  const TrainerState state = train({0.1}, folder_ / "out/checkpoint-2");
  EXPECT_EQ(state.best_model_checkpoint, std::nullopt);
  EXPECT_NE(said_.find(folder_ / "out/checkpoint-1, is not there any more"), std::string::npos) << said_;
}

TEST_F(BestModel, WantsDataToEvaluate) {
  AutoModel model = from_pretrained(real_file_system(), kTinyModel, {single_label, {}, false});
  const auto error_of_trainer = [&] {
    try {
      const Trainer trainer(*backend_, model, args_, &data_, nullptr);
      return std::string("no error");
    } catch (const Error& refusal) {
      EXPECT_EQ(refusal.code(), ErrorCode::kUsage);
      return std::string(refusal.what());
    }
  };
  EXPECT_EQ(error_of_trainer(),
            "--eval_strategy steps: found no evaluation data, expected some, or --eval_strategy no");
  args_.eval_strategy = "no";
  EXPECT_EQ(error_of_trainer(), "no error");
  args_.eval_on_start = true;
  EXPECT_EQ(error_of_trainer(),
            "--eval_on_start: found no evaluation data, expected some; scripts take it with --do_eval");
}

}  // namespace
}  // namespace lathe
