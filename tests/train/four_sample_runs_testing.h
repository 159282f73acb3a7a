#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "lathe/backends/register.h"
#include "lathe/core/test_folder.h"
#include "lathe/train/four_samples_testing.h"
#include "lathe/train/trainer.h"

namespace lathe {

/// For tests: trainings of the tiny model on four samples, three updates of all of them and a checkpoint
/// after each, on one thread.
class FourSampleRuns : public testing::Test {
 protected:
  FourSampleRuns() {
    args_.output_dir = folder_ / "out";
    args_.per_device_train_batch_size = 4;
    args_.learning_rate = 1e-2;
    args_.save_strategy = "steps";
    args_.save_steps = 1;
    args_.max_steps = 3;
    hooks_.message = [this](LogLevel level, const std::string& text) {
      said_ += (level == LogLevel::kWarning ? "WARNING " : "") + text + "\n";
    };
  }

  /// One evaluation after each update, with these scores.
  void evaluate(std::vector<double> scores) {
    args_.eval_strategy = "steps";
    args_.eval_steps = 1;
    args_.metric_for_best_model = "score";
    args_.greater_is_better = true;
    hooks_.compute_metrics = [scores = std::move(scores), next = size_t{0}](const TokenizedDataset&,
                                                                            const Predictions&) mutable {
      return MetricValues{{"score", scores.at(next++)}};
    };
  }

  Trainer& trainer(const std::string& model = kTinyModel, FileSystem& fs = real_file_system()) {
    said_.clear();
    model_ = from_pretrained(real_file_system(), model, {single_label, {}, false});
    trainer_ = std::make_unique<Trainer>(*backend_, model_, args_, &data_, &data_, hooks_, fs);
    return *trainer_;
  }

  std::vector<float> weights() const { return trainer_->session().parameters().read_state("parameters"); }

  /// The message of an error that ends the run; empty if there is none.
  std::string error_of(const std::string& resume_from = "", FileSystem& fs = real_file_system()) {
    try {
      trainer(kTinyModel, fs).train(resume_from);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  /// A run that is asked to stop after its first update.
  std::string error_of_stopped() {
    hooks_.should_stop = [] { return true; };
    const std::string error = error_of();
    hooks_.should_stop = nullptr;
    return error;
  }

  /// The steps at which the log has this key.
  std::vector<int64_t> logged(const char* key) const {
    std::vector<int64_t> steps;
    for (const auto& entry : trainer_->state().log_history)
      if (entry.contains(key)) steps.push_back(entry["step"]);
    return steps;
  }

  std::vector<std::string> found() { return real_file_system().list(*args_.output_dir).value(); }

  using Names = std::vector<std::string>;
  using Steps = std::vector<int64_t>;
  TestFolder folder_;
  std::unique_ptr<Backend> backend_ = open_device("cpu", {1});
  TokenizedDataset data_ = four_samples();
  TrainingArguments args_;
  TrainerHooks hooks_;
  AutoModel model_;
  std::unique_ptr<Trainer> trainer_;
  std::string said_;
};

}  // namespace lathe
