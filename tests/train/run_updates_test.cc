// What the updates of one run are: their number, order, rates and masks, and what is due after them.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "lathe/data/test_data.h"
#include "tests/train/four_sample_runs_testing.h"

namespace lathe {
namespace {

class RunUpdates : public FourSampleRuns {};

TEST_F(RunUpdates, ARunThatStopsEarlyEndsItsEpoch) {
  args_.per_device_train_batch_size = 1;  // four updates per epoch
  args_.logging_strategy = args_.save_strategy = "epoch";
  args_.max_steps = 40;
  args_.early_stopping_patience = 1;
  evaluate({0.1, 0.2, 0.3, 0.4, 0.9, 0.1});
  EXPECT_EQ(trainer().train().global_step, 6);
  EXPECT_EQ(found(), (Names{"checkpoint-4", "checkpoint-6"}));
  EXPECT_EQ(logged("loss"), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(logged("eval_score"), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST_F(RunUpdates, AnEpochEndsWithTheUpdateOfItsLastBatch) {
  args_.per_device_train_batch_size = 1,
  args_.gradient_accumulation_steps = 3;  // of three batches and of one
  args_.logging_strategy = args_.save_strategy = args_.eval_strategy = "epoch";
  args_.max_steps = 4;
  trainer().train();
  EXPECT_EQ(found(), (Names{"checkpoint-2", "checkpoint-4"}));
  for (const char* key : {"loss", "eval_loss"}) EXPECT_EQ(logged(key), (Steps{2, 4})) << key;
}

TEST_F(RunUpdates, ARunThatIsStoppedLogsItsEpochOnce) {
  args_.per_device_train_batch_size = 1;
  args_.logging_strategy = "epoch";
  args_.max_steps = 6;
  trainer().train();
  const auto whole = trainer_->state().log_history;
  EXPECT_EQ(logged("loss"), (std::vector<int64_t>{4, 6}));
  std::filesystem::remove_all(folder_ / "out");
  EXPECT_NE(error_of_stopped(), "");
  EXPECT_EQ(error_of(folder_ / "out/checkpoint-1"), "");
  EXPECT_EQ(logged("loss"), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(trainer_->state().log_history[0], whole[0]);
}

TEST_F(RunUpdates, WhatComesAtTheStartComesOnce) {
  args_.logging_first_step = args_.eval_on_start = true;
  args_.eval_delay = 2;
  evaluate({0.1, 0.2, 0.3});
  trainer().train();
  EXPECT_EQ(logged("loss"), Steps{1});
  EXPECT_EQ(logged("eval_score"), (Steps{0, 2, 3}));
  evaluate({0.2, 0.3});
  trainer().train(folder_ / "out/checkpoint-1");
  EXPECT_EQ(logged("loss"), Steps{1});
  EXPECT_EQ(logged("eval_score"), (Steps{0, 2, 3}));
}

TEST_F(RunUpdates, TheSeedOfTheDataAloneGivesTheirOrder) {
  args_.per_device_train_batch_size = 1;
  args_.learning_rate = 0;  // a loss tells its sample
  args_.logging_steps = 1;
  args_.max_steps = 4;
  args_.save_strategy = "no";
  const auto losses = [&](int64_t seed, std::optional<int64_t> data_seed) {
    args_.seed = seed, args_.data_seed = data_seed;
    trainer().train();
    std::vector<double> all;
    for (const auto& entry : trainer_->state().log_history)
      if (entry.contains("loss")) all.push_back(entry["loss"]);
    return all;
  };
  const auto wanted = losses(7, {});
  EXPECT_EQ(wanted.size(), 4u);
  EXPECT_EQ(losses(42, 7), wanted);
  EXPECT_NE(losses(42, {}), wanted);
}

/// The gradient of a squared error may be finite where the error itself is not.
TEST_F(RunUpdates, ALossThatIsNotFiniteTouchesNoWeight) {
  data_.tensors.floats("labels") = {0, 1, 1e29f, 0};
  args_.logging_steps = 1;
  AutoModel model = from_pretrained(real_file_system(), kTinyModel, {regression, {"x"}, true});
  Trainer trainer(*backend_, model, args_, &data_, nullptr);
  const std::vector<float> before = trainer.session().parameters().read_state("parameters");
  try {
    trainer.train();
    ADD_FAILURE() << "the loss is infinite";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNonFinite);
    EXPECT_TRUE(std::string(error.what()).starts_with("step 1: loss inf, gradient norm ")) << error.what();
    EXPECT_EQ(std::string(error.what()).find("norm inf"), std::string::npos) << error.what();
  }
  EXPECT_EQ(trainer.session().parameters().read_state("parameters"), before);
}

TEST_F(RunUpdates, ItsLastStepIsSavedAndEvaluatedThoughNoneIsDue) {
  args_.save_steps = 2;
  evaluate({0.1, 0.2});
  args_.eval_steps = 2;
  trainer().train();
  EXPECT_EQ(found(), (Names{"checkpoint-2", "checkpoint-3"}));
  EXPECT_EQ(logged("eval_score"), (Steps{2, 3}));
}

TEST_F(RunUpdates, ItsLastStepAloneIsSavedWhereNoneIsBetween) {
  args_.save_steps = 0;
  trainer().train();
  EXPECT_EQ(found(), (Names{"checkpoint-3"}));
}

TEST_F(RunUpdates, APartOfAnEpochIsTheUpdatesThatItBegins) {
  args_.per_device_train_batch_size = 1;  // four updates per epoch
  args_.max_steps = -1;
  for (const auto& [epochs, updates] : {std::pair{0.3, 2}, {1.0, 4}, {1.1, 5}}) {
    args_.num_train_epochs = epochs;
    EXPECT_EQ(trainer().plan().max_steps, updates) << epochs;
    EXPECT_EQ(trainer().plan().epochs, epochs > 1 ? 2 : 1) << epochs;
  }
}

TEST_F(RunUpdates, ABatchThatIsNotFullIsLeftOutWhereAskedFor) {
  args_.per_device_train_batch_size = 3;  // of four samples
  EXPECT_EQ(trainer().plan().updates_per_epoch, 2);
  args_.dataloader_drop_last = true;
  EXPECT_EQ(trainer().plan().updates_per_epoch, 1);
  trainer_->train();
  EXPECT_EQ(trainer_->state().epoch, 3);  // one update each
  args_.per_device_train_batch_size = 5;
  EXPECT_EQ(message_of(ErrorCode::kUsage, [&] { trainer().plan(); }),
            "--dataloader_drop_last leaves no batch: 4 samples, batches of 5; lower "
            "--per_device_train_batch_size or leave the flag out");
}

TEST_F(RunUpdates, RatesGrowAsLongAsTheWarmupSays) {
  args_.save_strategy = "no";
  args_.max_steps = 4;
  args_.logging_steps = 1;
  args_.learning_rate = 0.5;
  const auto rates = [&] {
    trainer().train();
    std::vector<double> all;
    for (const auto& entry : trainer_->state().log_history)
      if (entry.contains("learning_rate")) all.push_back(entry["learning_rate"]);
    return all;
  };
  EXPECT_EQ(rates(), (std::vector<double>{0.5, 0.375, 0.25, 0.125}));
  args_.warmup_steps = 2;
  EXPECT_EQ(rates(), (std::vector<double>{0, 0.25, 0.5, 0.25}));
  args_.warmup_steps = 0, args_.warmup_ratio = 0.25;
  EXPECT_EQ(rates().at(0), 0);
  EXPECT_EQ(rates().at(1), 0.5);
}

/// Plain SGD at rate 1 moves the weights by the norm of the clipped gradient: torch divides by norm + 1e-6.
TEST_F(RunUpdates, AnUpdateIsAsLongAsTheGradientMayBe) {
  args_.save_strategy = "no";
  args_.optim = "sgd";
  args_.max_steps = 1, args_.logging_steps = 1;
  args_.learning_rate = 1;
  for (const double most : {0.01, 0.0}) {  // 0: no limit
    args_.max_grad_norm = most;
    Trainer& t = trainer();
    const std::vector<float> before = weights();
    t.train();
    const std::vector<float> after = weights();
    double sum = 0;
    for (size_t i = 0; i < before.size(); ++i) sum += std::pow(double{after[i]} - double{before[i]}, 2);
    const double norm = t.state().log_history.at(0).at("grad_norm");
    EXPECT_GT(norm, 1);
    // The norm is a sum of n squares in f32; what is added to weights of about 1 is rounded to 2^-24.
    const double n = static_cast<double>(before.size()), wanted = most > 0 ? most : norm;
    EXPECT_NEAR(std::sqrt(sum), wanted, wanted * (n * 0x1p-25 + 1e-6) + std::sqrt(n) * 0x1p-24) << most;
  }
}

/// A learning rate of 0 leaves masks as all that can change a loss.
TEST_F(RunUpdates, MasksAreOtherOnesInEachUpdateAndWithEachSeed) {
  args_.save_strategy = "no";
  args_.learning_rate = 0;
  args_.train_sampling_strategy = "sequential";
  args_.logging_steps = 1;
  const auto losses = [&](int64_t seed, double dropout) {
    ModelConfig config = read_model_config(real_file_system(), kTinyModel);
    config.hidden_dropout_prob = dropout;
    AutoModel model = from_config(config, {single_label, config_labels(config)}, std::nullopt);
    model.checkpoint = open_checkpoint(real_file_system(), kTinyModel);
    args_.seed = seed;
    Trainer trainer(*backend_, model, args_, &data_, nullptr);
    trainer.train();
    std::vector<double> all;
    for (const auto& entry : trainer.state().log_history)
      if (entry.contains("loss")) all.push_back(entry["loss"]);
    return all;
  };
  const std::vector<double> without = losses(7, 0), with = losses(7, 0.1), other = losses(8, 0.1);
  EXPECT_EQ(without, std::vector<double>(3, without.at(0)));
  EXPECT_EQ(losses(7, 0.1), with);
  for (size_t i = 0; i < with.size(); ++i) {
    EXPECT_NE(with[i], without[i]);
    EXPECT_NE(with[i], with[(i + 1) % with.size()]);
    EXPECT_NE(with[i], other.at(i));
  }
}

/// A learning rate of 0 leaves the samples of an update as all that can change its loss.  Source:
/// transformers' Trainer._get_train_sampler, whose groups are as large as an update.
TEST_F(RunUpdates, LengthsAreGroupedOverAllBatchesOfAnUpdate) {
  data_ = {};
  for (int32_t sample = 0; sample < 12; ++sample) {
    for (int32_t token = 0; token <= sample; ++token)
      data_.input_ids.push_back(5 + (7 * sample + token) % 90);
    data_.begins.push_back(std::ssize(data_.input_ids));
    data_.tensors.ints("labels").push_back(sample % 3 % 2);
  }
  data_.type_ids.resize(data_.input_ids.size());
  args_.save_strategy = "no";
  args_.learning_rate = 0;
  args_.logging_steps = 1;
  args_.max_steps = 6;  // two epochs
  args_.train_sampling_strategy = "group_by_length";
  const auto losses = [&](int64_t batch_size) {
    args_.per_device_train_batch_size = batch_size, args_.gradient_accumulation_steps = 4 / batch_size;
    trainer().train();
    std::vector<double> all;
    for (const auto& entry : trainer_->state().log_history)
      if (entry.contains("loss")) all.push_back(entry["loss"]);
    return all;
  };
  const std::vector<double> whole = losses(4), single = losses(1);
  ASSERT_EQ(whole.size(), 6u);
  for (size_t i = 0; i < whole.size(); ++i)  // a mean in f32: three additions and a division
    EXPECT_NEAR(single.at(i), whole[i], 4 * 0x1p-24 * whole[i]) << i;
}

TEST_F(RunUpdates, NewWeightsFollowTheSeed) {
  const auto drawn = [&](int64_t seed) {
    AutoModel model = from_config(read_model_config(real_file_system(), kTinyModel),
                                  {single_label, {"a", "b"}}, std::nullopt);
    args_.seed = seed, args_.data_seed = 1;
    return Trainer(*backend_, model, args_, &data_, nullptr).session().parameters().read_state("parameters");
  };
  const std::vector<float> seven = drawn(7);
  EXPECT_EQ(drawn(7), seven);
  EXPECT_NE(drawn(8), seven);
}

}  // namespace
}  // namespace lathe
