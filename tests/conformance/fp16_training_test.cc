// Training in f16 with the loss scale: what overflows is left out, and nothing else changes.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lathe/backends/register.h"
#include "lathe/core/error.h"
#include "lathe/core/philox.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/core/test_folder.h"
#include "lathe/io/json_file.h"
#include "lathe/train/python/python_checkpoint.h"
#include "lathe/train/trainer.h"

namespace lathe::fp16_training_test {
namespace {

/// Rows of 1 to 24 tokens of the tiny model's vocabulary with targets around 0; one of them is far away where
/// `outlier` is not 0.
TokenizedDataset make_data(int64_t samples, uint32_t seed, float outlier) {
  TokenizedDataset data;
  const auto draw = [&](int64_t i, int64_t j, uint32_t below) {
    return static_cast<int32_t>(
        philox({static_cast<uint32_t>(i), static_cast<uint32_t>(j), 0, 0}, seed, 0)[0] % below);
  };
  for (int64_t i = 0; i < samples; ++i) {
    const int32_t length = 1 + draw(i, 1000, 24);
    for (int32_t t = 0; t < length; ++t) {
      data.input_ids.push_back(draw(i, t, 115));
      data.type_ids.push_back(static_cast<uint8_t>(t > length / 2));
    }
    data.begins.push_back(static_cast<int64_t>(data.input_ids.size()));
    const float far = i == samples / 2 ? outlier : 0;
    data.tensors.floats("labels").push_back(far != 0 ? far
                                                     : 0.01f * static_cast<float>(draw(i, 2000, 200)) - 1);
  }
  return data;
}

class Fp16Training : public testing::Test {
 protected:
  Fp16Training() {
    config_ = read_json(real_file_system(), source_path("tests/golden/tiny_bert/classification/config.json"));
    config_["hidden_dropout_prob"] = config_["attention_probs_dropout_prob"] = 0.1;
    args_.fp16 = true;
    args_.per_device_train_batch_size = 4, args_.per_device_eval_batch_size = 5;
    args_.learning_rate = 1e-3;
    args_.weight_decay = 0.01;
    args_.warmup_steps = 3;
    args_.logging_steps = 1;
    args_.save_strategy = "no";
    args_.output_dir = output_.path();
  }

  struct Run {
    std::vector<double> losses, norms, rates;
    std::vector<float> state;  // weights, moments, the last scores
    std::string error;
    std::vector<std::string> messages;
    bool operator==(const Run& other) const {
      return losses == other.losses && printed(norms) == printed(other.norms) && rates == other.rates &&
             state == other.state;
    }
    /// A norm may be NaN, which is not equal to itself, and whose sign a checkpoint does not keep.
    static std::string printed(std::vector<double> values) {
      for (double& x : values) x = std::abs(x);
      return fmt::format("{:a}", fmt::join(values, " "));
    }
    int64_t skipped() const {
      return std::count_if(norms.begin(), norms.end(), [](double x) { return !std::isfinite(x); });
    }
  };

  AutoModel make_model() const {
    return from_config(parse_model_config(config_, "config.json"), {regression, {"x"}}, std::nullopt);
  }

  /// Stops after `stop` updates if that is not 0; continues from `resume_from`.
  Run train(int64_t stop = 0, const std::string& resume_from = "", int threads = 2, float weight = 0) {
    const auto backend = open_device("cpu", {threads});
    AutoModel model = make_model();
    Run run;
    int64_t steps = 0;
    TrainerHooks hooks;
    hooks.message = [&](LogLevel, const std::string& text) { run.messages.push_back(text); };
    hooks.should_stop = [&] { return ++steps == stop; };
    Trainer trainer(*backend, model, args_, &train_, &eval_, hooks);
    if (weight != 0) {  // of the last layer
      const int last = static_cast<int>(model.model->parameters().size()) - 2;
      std::vector<float> values = trainer.session().parameters().read(last);
      std::fill(values.begin(), values.end(), weight);
      trainer.session().parameters().write(last, values);
    }
    try {
      trainer.train(resume_from);
    } catch (const Error& e) {
      run.error = e.what();
      EXPECT_EQ(e.code(), stop != 0 ? ErrorCode::kInterrupted : ErrorCode::kNonFinite) << e.what();
    }
    for (const auto& entry : trainer.state().log_history)
      if (entry.contains("grad_norm")) {
        run.losses.push_back(entry["loss"]);
        run.norms.push_back(entry["grad_norm"]);
        run.rates.push_back(entry["learning_rate"]);
      }
    for (const char* name : {"parameters", "exp_avg", "exp_avg_sq"})
      append(run, trainer.session().parameters().read_state(name));
    append(run, trainer.predict(eval_).logits);
    return run;
  }
  static void append(Run& run, const std::vector<float>& values) {
    run.state.insert(run.state.end(), values.begin(), values.end());
  }

  nlohmann::json config_;
  TrainingArguments args_;
  TestFolder output_;
  TokenizedDataset train_ = make_data(43, 1, 0), eval_ = make_data(11, 2, 0);
};

// An activation of size up to 4 (after LayerNorm) is rounded by 2^-11 of it about 40 times on its way
// through the two layers, with either sign: 4 · 2^-11 · √40 = 0.012 of a score, and (score − target)² by 2 ·
// 2 of that.
TEST_F(Fp16Training, LearnsAsFp32Does) {
  const Run half = train();
  args_.fp16 = false;
  const Run whole = train();
  ASSERT_EQ(half.losses.size(), 33u);
  ASSERT_EQ(half.skipped(), 0);
  EXPECT_NE(half.losses, whole.losses);
  for (size_t i = 0; i < half.losses.size(); ++i) EXPECT_NEAR(half.losses[i], whole.losses[i], 0.05) << i;
  EXPECT_EQ(half.rates, whole.rates);
}

TEST_F(Fp16Training, AnOverflowIsLeftOutAndScheduleAndAdamWWait) {
  train_ = make_data(43, 1, 3000);  // 2 · 3000 / 4 · 65536 is far beyond 65504: the scale has to fall to 32
  const Run run = train();
  ASSERT_EQ(run.losses.size(), 33u);
  EXPECT_EQ(run.skipped(), 3);  // once in each epoch
  for (size_t i = 0; i + 1 < run.rates.size(); ++i) {
    EXPECT_TRUE(std::isfinite(run.losses[i]));
    EXPECT_EQ(run.rates[i + 1] == run.rates[i], !std::isfinite(run.norms[i])) << i;
  }
  ASSERT_EQ(run.messages.size(), 1u);
  EXPECT_NE(run.messages[0].find("3 of 33 updates were left out"), std::string::npos) << run.messages[0];
  EXPECT_NE(run.messages[0].find("scale is 8192"), std::string::npos) << run.messages[0];
}

// Of AdamW's first update each step is the learning rate, but for eps; of a later one less.
TEST_F(Fp16Training, TheFirstUpdateThatIsAppliedIsAdamWsFirst) {
  train_ = make_data(4, 1, 3000);  // one batch, which overflows until the scale is 32
  args_.lr_scheduler_type = "constant";
  args_.weight_decay = 0;
  args_.max_steps = 11;
  const Run before = train();
  ASSERT_EQ(before.skipped(), 11);
  args_.max_steps = 12;
  const Run after = train();
  ASSERT_EQ(after.skipped(), 11);
  const auto parameters = (after.state.size() - static_cast<size_t>(eval_.size())) / 3;
  float most = 0;
  for (size_t i = 0; i < parameters; ++i) most = std::max(most, std::abs(after.state[i] - before.state[i]));
  EXPECT_NEAR(most, args_.learning_rate, 0x1p-23);  // weights near 1 are rounded
}

// A line of the log waits for all updates before it: without one they must not run ahead of their loss scale.
TEST_F(Fp16Training, TheLogChangesNothing) {
  train_ = make_data(43, 1, 3000);
  const Run wanted = train();
  ASSERT_GT(wanted.skipped(), 0);
  args_.logging_steps = 100;
  EXPECT_EQ(train().state, wanted.state);
}

// The optimizer and the schedule of Python's Trainer do not see what was left out.
TEST_F(Fp16Training, PythonFindsTheUpdatesThatWereApplied) {
  train_ = make_data(4, 1, 3000);
  args_.max_steps = 12;
  args_.save_strategy = "steps", args_.save_steps = 12;
  ASSERT_EQ(train().skipped(), 11);
  const auto backend = open_device("cpu", {1});
  AutoModel model = make_model();
  Trainer trainer(*backend, model, args_, &train_, &eval_);
  const OptimizerProgress found =
      read_python_state(real_file_system(), output_ / "checkpoint-12", trainer.session().parameters(), 12);
  EXPECT_EQ(found.applied, 1);
  EXPECT_EQ(found.schedule_step, 1);
  EXPECT_EQ(found.base_learning_rate, 1e-3);
  EXPECT_EQ(found.learning_rate, 1e-3 / 3);  // of three steps of warmup
}

TEST_F(Fp16Training, TheSameBitsWithAnyNumberOfThreads) {
  train_ = make_data(43, 1, 3000);
  const Run wanted = train(0, "", 1);
  EXPECT_TRUE(train(0, "", 2) == wanted);
  EXPECT_TRUE(train(0, "", 3) == wanted);
}

TEST_F(Fp16Training, ARunThatStoppedAndWentOnGivesTheSameBits) {
  train_ = make_data(43, 1, 3000);
  for (int64_t accumulation : {1, 3}) {
    args_.gradient_accumulation_steps = accumulation;
    const Run wanted = train();
    ASSERT_GT(wanted.skipped(), 0);
    const int64_t first =
        std::find_if(wanted.norms.begin(), wanted.norms.end(), [](double x) { return !std::isfinite(x); }) -
        wanted.norms.begin();
    ASSERT_GT(first, 0);
    for (int64_t stop : {first, first + 1}) {  // before the overflow, and right after it
      train(stop);
      const Run resumed = train(0, output_ / "checkpoint-" + std::to_string(stop));
      EXPECT_TRUE(resumed == wanted) << "stopped after " << stop << ", accumulation " << accumulation;
    }
  }
}

TEST_F(Fp16Training, ALossThatNeverIsFiniteStopsTheRun) {
  const Run run = train(0, "", 1, 1e5f);  // becomes infinity in f16
  EXPECT_NE(run.error.find("step 16: --fp16: 16 updates in a row with a loss that is not finite"),
            std::string::npos)
      << run.error;
  EXPECT_NE(run.error.find("--bf16"), std::string::npos);
}

// As transformers logs with its --logging_nan_inf_filter: such a loss counts as the mean of those since the
// last log, itself among them as 0.
TEST_F(Fp16Training, ALossThatIsNotFiniteCountsAsTheMeanOfThoseBefore) {
  train_ = make_data(43, 1, 1e29f);  // its square is infinite
  args_.learning_rate = 0;
  args_.max_steps = 11;  // an epoch
  std::vector<double> each = train().losses;
  ASSERT_EQ(each.size(), 11u);
  const auto bad = static_cast<size_t>(std::find(each.begin(), each.end(), 0.0) - each.begin());
  ASSERT_LT(bad, 11u);
  for (const double loss : each) EXPECT_TRUE(std::isfinite(loss));
  args_.logging_steps = 11;
  const double before = std::accumulate(each.begin(), each.begin() + static_cast<long>(bad), 0.0);
  each[bad] = before / static_cast<double>(bad + 1);
  const Run run = train();
  ASSERT_EQ(run.losses.size(), 1u);
  EXPECT_DOUBLE_EQ(run.losses[0], std::accumulate(each.begin(), each.end(), 0.0) / 11);
}

// The scale is data: the loss has the same bits with any, the norm is that of gradients without it, and where
// it is too large nothing is updated.
TEST_F(Fp16Training, TheScaleChangesNeitherLossNorNorm) {
  const auto backend = open_device("cpu", {2});
  AutoModel model = make_model();
  Trainer trainer(*backend, model, args_, &train_, &eval_);
  Session& session = trainer.session();
  PackedBatch batch;
  const std::vector<int32_t> samples{0, 1, 2, 3};
  pack_batch(train_, samples, {{32, 32}}, batch);
  const std::vector<float> before = session.parameters().read_state("parameters");
  StepScalars scalars;
  const auto outcome = [&](double scale) {
    scalars.loss_scale = scale;
    return session.collect(session.step(batch, scalars));
  };
  const Session::Outcome over = outcome(0x1p40);
  EXPECT_FALSE(std::isfinite(over.grad_norm));
  EXPECT_EQ(session.parameters().read_state("parameters"), before);
  scalars.learning_rate = 0;
  const Session::Outcome wanted = outcome(1024);
  for (double scale : {64.0, 4096.0}) {
    const Session::Outcome found = outcome(scale);
    EXPECT_EQ(found.loss, over.loss);
    // gradients below 2^-14 / scale lose digits: 2^-25 / 64 each, of 64 · 32 or so that a norm sums over
    EXPECT_NEAR(found.grad_norm, wanted.grad_norm, 1e-3 * wanted.grad_norm) << scale;
  }
}

TEST_F(Fp16Training, FullEvaluationConcernsWhatIsNotTraining) {
  args_.fp16 = false;
  args_.max_steps = 2;
  args_.eval_strategy = "steps";
  args_.eval_steps = 2;
  const auto evaluate = [&] {
    const auto backend = open_device("cpu", {2});
    AutoModel model = make_model();
    Trainer trainer(*backend, model, args_, &train_, &eval_);
    trainer.train();
    double within = 0;
    for (const auto& entry : trainer.state().log_history)
      if (entry.contains("eval_loss")) within = entry["eval_loss"];
    return std::pair(within, trainer.evaluate(eval_)["eval_loss"].get<double>());
  };
  const auto [within, behind] = evaluate();
  EXPECT_EQ(within, behind);
  for (bool TrainingArguments::*flag :
       {&TrainingArguments::fp16_full_eval, &TrainingArguments::bf16_full_eval}) {
    args_.*flag = true;
    const auto [full_within, full_behind] = evaluate();
    EXPECT_EQ(full_within, within);
    EXPECT_NE(full_behind, behind);
    EXPECT_NEAR(full_behind, behind, 0.1 * behind);
    args_.*flag = false;
  }
}

}  // namespace
}  // namespace lathe::fp16_training_test
