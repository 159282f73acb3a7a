// What evaluations of a run give, in the training and outside of it.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/train/four_sample_runs_testing.h"

namespace lathe {
namespace {

class RunEvaluations : public FourSampleRuns {};

TEST_F(RunEvaluations, LabelsThatTheModelHasNotAreRefusedInDataToEvaluateToo) {
  model_ = from_pretrained(real_file_system(), kTinyModel, {single_label, {}, false});
  TokenizedDataset other = four_samples();
  other.tensors.ints("labels")[2] = 99;
  try {
    const Trainer refused(*backend_, model_, args_, &data_, &other);
    ADD_FAILURE() << "the model has two classes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
    EXPECT_NE(std::string(error.what()).find("evaluation data"), std::string::npos) << error.what();
  }
}

TEST_F(RunEvaluations, EvaluationAfterAStoppedOneIsThatOutsideOfTraining) {
  args_.bf16_full_eval = true;
  EXPECT_NE(error_of_stopped(), "");
  const double after = trainer_->evaluate(data_)["eval_loss"];
  trainer_->save_model(folder_ / "stopped");
  EXPECT_EQ(trainer(folder_ / "stopped").evaluate(data_)["eval_loss"], after);
}

/// --bf16_full_eval is for evaluations outside of a training; those within are in its dtype.
TEST_F(RunEvaluations, FullEvaluationIsNotThatOfATraining) {
  args_.save_strategy = "no";
  args_.eval_strategy = "steps", args_.eval_steps = 3;
  std::vector<double> within, after;
  for (const bool full : {false, true}) {
    args_.bf16_full_eval = full;
    trainer().train();
    for (const auto& entry : trainer_->state().log_history)
      if (entry.contains("eval_loss")) within.push_back(entry["eval_loss"]);
    after.push_back(trainer_->evaluate(data_)["eval_loss"]);
  }
  ASSERT_EQ(within.size(), 2u);
  EXPECT_EQ(within[0], within[1]);
  EXPECT_EQ(after[0], within[0]);
  EXPECT_NE(after[1], after[0]);
}

/// A frozen base's output is kept only for the evaluation data.
TEST_F(RunEvaluations, OtherDataThanThoseWhoseBaseIsKeptAreEvaluatedAnew) {
  args_.freeze_base_model = true;
  args_.eval_strategy = "steps", args_.eval_steps = 3;
  trainer().train();
  TokenizedDataset other = four_samples();
  for (int32_t& id : other.input_ids) id += 20;
  const nlohmann::json found = trainer_->evaluate(other);
  EXPECT_NE(found["eval_loss"], trainer_->evaluate(data_)["eval_loss"]);
  trainer_->save_model(folder_ / "trained");
  EXPECT_EQ(trainer(folder_ / "trained").evaluate(other)["eval_loss"], found["eval_loss"]);
}

/// The base that is kept is that of the training's dtype.
TEST_F(RunEvaluations, AFullEvaluationInAnotherDtypeRunsTheBaseAnew) {
  args_.freeze_base_model = true;
  args_.bf16_full_eval = true;
  args_.eval_strategy = "steps", args_.eval_steps = 3;
  trainer().train();
  const nlohmann::json found = trainer_->evaluate(data_);
  trainer_->save_model(folder_ / "trained");
  EXPECT_EQ(trainer(folder_ / "trained").evaluate(data_)["eval_loss"], found["eval_loss"]);
}

/// Weights in integers are kept from one evaluation to the next, but not after an update.
TEST_F(RunEvaluations, AnEvaluationInIntegersIsOfTheWeightsAsTheyAre) {
  args_.int8 = true;
  for (const char* optimizer : {"sgd", "adafactor", "adamw_torch"}) {
    args_.optim = optimizer;
    const nlohmann::json before = trainer().evaluate(data_);
    trainer_->train();
    const nlohmann::json after = trainer_->evaluate(data_);
    EXPECT_NE(after["eval_loss"], before["eval_loss"]);
    trainer_->save_model(folder_ / "trained");
    EXPECT_EQ(trainer(folder_ / "trained").evaluate(data_)["eval_loss"], after["eval_loss"]) << optimizer;
  }
}

TEST_F(RunEvaluations, ALossIsTheMeanOfSamplesNotOfBatches) {
  args_.per_device_eval_batch_size = 4;
  const double wanted = trainer().evaluate(data_)["eval_loss"];
  args_.per_device_eval_batch_size = 3;                                               // and a batch of one
  EXPECT_NEAR(trainer().evaluate(data_)["eval_loss"], wanted, 8 * 0x1p-24 * wanted);  // sums of four, in f32
}

TEST_F(RunEvaluations, WhatHasNoLabelsHasNoScores) {
  evaluate({});  // a score that is asked for is one too many
  TokenizedDataset unlabelled = four_samples();
  unlabelled.tensors.ints("labels").clear();
  const nlohmann::json found = trainer().evaluate(unlabelled);
  EXPECT_TRUE(found.contains("eval_runtime"));
  for (const char* key : {"eval_loss", "eval_score"}) EXPECT_FALSE(found.contains(key)) << key;
}

}  // namespace
}  // namespace lathe
