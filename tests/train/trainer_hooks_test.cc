// What a trainer tells while it runs and counts of itself.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <thread>

#include "lathe/api/hf.h"
#include "lathe/backends/register.h"
#include "lathe/core/test_folder.h"
#include "lathe/train/four_samples_testing.h"
#include "lathe/train/trainer.h"

namespace lathe {
namespace {

class Told : public testing::Test {
 protected:
  Told() {
    args_.output_dir = folder_ / "out";
    args_.per_device_train_batch_size = args_.per_device_eval_batch_size = 2;
    args_.max_steps = 4;
    args_.logging_steps = 1;
    args_.save_steps = 2;
  }

  Trainer trainer() { return Trainer(*backend_, model_, args_, &data_, &data_, hooks_); }

  TestFolder folder_;
  std::unique_ptr<Backend> backend_ = open_device("cpu", {1});
  TokenizedDataset data_ = four_samples();
  AutoModel model_ = from_pretrained(real_file_system(), kTinyModel, {single_label, {}, false});
  TrainingArguments args_;
  TrainerHooks hooks_;
};

TEST_F(Told, AnEvaluationBeforeItsFirstBatchAndAfterEach) {
  std::vector<std::pair<int64_t, int64_t>> told;
  hooks_.on_evaluation_step = [&](int64_t batch, int64_t batches) { told.emplace_back(batch, batches); };
  trainer().evaluate(data_);
  EXPECT_EQ(told, (std::vector<std::pair<int64_t, int64_t>>{{0, 2}, {1, 2}, {2, 2}}));
}

TEST_F(Told, NoLossBeforeOneIsKnown) {
  args_.logging_steps = 100;
  std::vector<std::optional<double>> losses;
  hooks_.on_step = [&](int64_t, int64_t, std::optional<double> loss) { losses.push_back(loss); };
  Trainer twice = trainer();
  for (const char* from : {"", "out/checkpoint-2"}) {
    losses.clear();
    twice.train(*from == '\0' ? "" : folder_ / from);
    ASSERT_GE(losses.size(), 2u);
    EXPECT_EQ(losses[0], std::nullopt);
    EXPECT_GT(losses.back().value(), 0);
  }
}

/// With fewer bits it evaluates twice, and reports the runtime of the second time.
TEST_F(Told, TheSecondsOfAllItsEvaluations) {
  constexpr std::chrono::milliseconds kPause{20};
  hooks_.compute_metrics = [&](const TokenizedDataset&, const Predictions&) {
    std::this_thread::sleep_for(kPause);
    return MetricValues{{"score", 1}};
  };
  args_.int8 = true;
  Trainer t = trainer();
  const double first = t.evaluate(data_).at("eval_runtime");
  EXPECT_GE(t.evaluation_seconds(), first + std::chrono::duration<double>(kPause).count());
  const double before = t.evaluation_seconds();
  t.evaluate(data_);
  EXPECT_GT(t.evaluation_seconds(), before);
}

TEST_F(Told, ATestSetIsNoPartOfTheLog) {
  hooks_.compute_metrics = [](const TokenizedDataset&, const Predictions&) {
    return MetricValues{{"score", 1}, {"HasAns_total", 2}, {"loss_total", 0.75}, {"NoAns_total", NAN}};
  };
  Trainer t = trainer();
  t.train();
  const size_t logged = t.state().log_history.size();
  const nlohmann::json found = t.test(data_);
  EXPECT_EQ(t.state().log_history.size(), logged);
  for (const char* key : {"test_loss", "test_score", "test_runtime"}) EXPECT_TRUE(found.contains(key)) << key;
  EXPECT_FALSE(found.contains("epoch"));
  EXPECT_EQ(found.at("test_HasAns_total").dump(), "2");  // a count is an integer, a score is none
  EXPECT_EQ(found.at("test_score").dump(), "1.0");
  EXPECT_EQ(found.at("test_loss_total").dump(), "0.75");
  EXPECT_EQ(found.at("test_NoAns_total").dump(), "null");
}

TEST_F(Told, ATestSetWithoutLabelsIsPredictedInOnePass) {
  const Predictions wanted = trainer().predict(data_);
  data_.tensors.ints("labels").clear();
  std::vector<int64_t> told;
  hooks_.on_evaluation_step = [&](int64_t batch, int64_t) { told.push_back(batch); };
  Predictions found;
  EXPECT_FALSE(Trainer(*backend_, model_, args_, nullptr, nullptr, hooks_)
                   .test(data_, "test", &found)
                   .contains("test_loss"));
  EXPECT_EQ(found.logits, wanted.logits);
  EXPECT_EQ(told, (std::vector<int64_t>{0, 1, 2}));
}

TEST_F(Told, TokensUpToTheLogLine) {
  std::vector<int64_t> tokens;
  const Trainer* running = nullptr;
  hooks_.on_record = [&](const nlohmann::ordered_json& entry) {
    if (entry.contains("loss")) tokens.push_back(running->trained_tokens());
  };
  args_.include_num_input_tokens_seen = "all";
  Trainer t = trainer();
  running = &t;
  const TrainOutput output = t.train();
  EXPECT_EQ(tokens, (std::vector<int64_t>{6, 12, 18, 24}));  // two texts of three tokens in each update
  EXPECT_EQ(output.metrics.at("num_input_tokens_seen"), 24);
}

/// As in Python's Trainer: evaluations within a training measure nothing, and log nothing of it.
TEST_F(Told, MemoryOfTheStartWithWhatComesFirstAndOfEvaluationsOutsideOfATraining) {
  args_.skip_memory_metrics = false;
  args_.eval_strategy = "steps", args_.eval_steps = 1;
  Trainer t = trainer();
  const nlohmann::json metrics = t.train().metrics, after = t.evaluate(data_);
  for (const char* key : {"before_init_mem_cpu", "init_mem_cpu_alloc_delta", "train_mem_cpu_alloc_delta"})
    EXPECT_TRUE(metrics.contains(key)) << key;
  EXPECT_TRUE(after.contains("eval_mem_cpu_alloc_delta"));
  EXPECT_FALSE(after.contains("init_mem_cpu_alloc_delta"));
  for (const auto& entry : t.state().log_history) {
    const bool evaluation = entry.contains("eval_loss");
    EXPECT_FALSE(evaluation && entry.dump().find("_mem_") != std::string::npos) << entry;
  }
}

/// As in Python's Trainer: what is due by steps comes before what the end of the epoch brings.
TEST_F(Told, EvaluationsByStepsBeforeTheLogLineOfTheirEpoch) {
  const auto history = [&](const char* evaluated) {
    args_.logging_strategy = "epoch", args_.eval_strategy = evaluated, args_.eval_steps = 1;
    Trainer t = trainer();
    t.train();
    std::vector<std::string> told;
    for (const auto& entry : t.state().log_history)
      for (const char* key : {"loss", "eval_loss"})
        if (entry.contains(key)) told.push_back(fmt::format("{} {}", entry["step"].get<int>(), key));
    return told;
  };
  using Words = std::vector<std::string>;  // two updates an epoch
  EXPECT_EQ(history("steps"),
            Words({"1 eval_loss", "2 eval_loss", "2 loss", "3 eval_loss", "4 eval_loss", "4 loss"}));
  EXPECT_EQ(history("epoch"), Words({"2 loss", "2 eval_loss", "4 loss", "4 eval_loss"}));
}

/// all_results.json is updated in place: rates of the run before must not stay next to its runtime.
TEST_F(Told, RatesOfARunThatHasNothingLeftToDo) {
  trainer().train();
  const nlohmann::json metrics = trainer().train(folder_ / "out/checkpoint-4").metrics;
  EXPECT_EQ(metrics.at("train_samples_per_second"), 0.0);
  EXPECT_EQ(metrics.at("train_steps_per_second"), 0.0);
}

/// Whoever has made them: lathe::Trainer is a program's, too.
TEST_F(Told, ArgumentsAreChecked) {
  const auto error = [&](const std::function<void(TrainingArguments&)>& change) -> std::string {
    TrainingArguments args = args_;
    change(args);
    try {
      Trainer(*backend_, model_, args, &data_, &data_);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUsage);
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error([](auto& a) { a.gradient_accumulation_steps = 0; }),
            "--gradient_accumulation_steps: found 0, expected at least 1 and at most 1000000000");
  EXPECT_TRUE(error([](auto& a) { a.logging_steps = 0; }).starts_with("--logging_steps: found 0"));
  EXPECT_TRUE(
      error([](auto& a) { a.eval_strategy = "epochs"; }).starts_with("--eval_strategy: found 'epochs'"));
}

TEST_F(Told, ArgumentsThatOthersImply) {
  args_.output_dir.reset();  // writes nothing
  args_.eval_strategy = "epoch", args_.early_stopping_patience = 1;
  EXPECT_EQ(trainer().arguments().metric_for_best_model, "loss");
  EXPECT_EQ(trainer().arguments().output_dir, std::nullopt);
}

TEST_F(Told, NoticesOfTheArguments) {
  std::vector<std::string> told;
  hooks_.message = [&](LogLevel level, const std::string& text) {
    if (level == LogLevel::kWarning) told.push_back(text);
  };
  args_.device = "cpu", args_.threads = 1;
  args_.early_stopping_threshold = 0.5, args_.fp16 = true;
  hf::Trainer(model_, args_, data_, data_, hooks_);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_TRUE(told[0].starts_with("--early_stopping_threshold changes nothing")) << told[0];
  EXPECT_TRUE(told[1].starts_with("--fp16: computes in float16 on the CPU")) << told[1];
}

TEST_F(Told, ARunWithoutEndBeginsAndStopsWhereItIsAsked) {
  args_.max_steps = 1'000'000'000'000'000;
  hooks_.should_stop = [] { return true; };
  try {
    trainer().train();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInterrupted);
    EXPECT_NE(std::string(error.what()).find("interrupted after step 1;"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lathe
