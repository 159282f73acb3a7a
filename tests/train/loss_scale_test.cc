// What --hf_compat_loss_scale changes under accumulation, as transformers 5 does.
#include <gtest/gtest.h>

#include "lathe/backends/register.h"
#include "lathe/core/test_folder.h"
#include "lathe/train/four_samples_testing.h"
#include "lathe/train/trainer.h"

namespace lathe {
namespace {

class LossScale : public testing::Test {
 protected:
  LossScale() {
    args_.save_strategy = "no";
    args_.gradient_accumulation_steps = 2;
    args_.max_steps = 1, args_.logging_steps = 1;
  }

  /// The loss of one update in which the flag is set or not; samples of a batch: of four, so that the last is
  /// shorter where it is 3.
  double loss(bool compat, MakeTask task, const TokenizedDataset& data, int batch_size) {
    args_.hf_compat_loss_scale = compat;
    args_.per_device_train_batch_size = batch_size;
    args_.output_dir = folder_ / "out";
    AutoModel model = from_pretrained(real_file_system(), kTinyModel, {task, {}, false});
    Trainer trainer(*backend_, model, args_, &data, nullptr);
    trainer.train();
    return trainer.state().log_history.at(0).at("loss");
  }

  TestFolder folder_;
  std::unique_ptr<Backend> backend_ = open_device("cpu", {1});
  TrainingArguments args_;
};

constexpr double kRounding = 1e-6;  // of f32 sums of four losses

TEST_F(LossScale, ClassifiersAddUpMeans) {
  const TokenizedDataset data = four_samples();
  EXPECT_NEAR(loss(true, single_label, data, 2), 2 * loss(false, single_label, data, 2), kRounding);
}

TEST_F(LossScale, LabelSmoothingDividesByTheSamplesOfTheUpdate) {
  args_.label_smoothing_factor = 0.1;
  const TokenizedDataset data = four_samples();
  const double even = loss(false, single_label, data, 2);
  EXPECT_NEAR(loss(true, single_label, data, 2), even, kRounding);
  EXPECT_NEAR(loss(true, single_label, data, 3), even, kRounding);
  EXPECT_GT(std::abs(loss(false, single_label, data, 3) - even), 10 * kRounding);
}

/// The last group of an epoch may be short: it is the mean of the batches that it has.
TEST_F(LossScale, AShortGroupIsTheMeanOfItsOwnBatches) {
  TokenizedDataset data = four_samples();
  data.input_ids.resize(9), data.type_ids.resize(9), data.begins.resize(4),
      data.tensors.ints("labels").resize(3);
  args_.per_device_train_batch_size = 1;
  args_.train_sampling_strategy = "sequential";
  args_.learning_rate = 0;  // all updates are at the same weights
  args_.output_dir = folder_ / "out";
  const auto logged = [&](int64_t accumulation, int64_t updates) {
    args_.gradient_accumulation_steps = accumulation, args_.max_steps = updates;
    AutoModel model = from_pretrained(real_file_system(), kTinyModel, {single_label, {}, false});
    Trainer trainer(*backend_, model, args_, &data, nullptr);
    trainer.train();
    return trainer.state().log_history;
  };
  const auto single = logged(1, 3), pairs = logged(2, 2);
  EXPECT_NEAR(pairs[0].at("loss"),
              (single[0].at("loss").get<double>() + single[1].at("loss").get<double>()) / 2, kRounding);
  for (const char* key : {"loss", "grad_norm"})
    EXPECT_NEAR(pairs[1].at(key), single[2].at(key).get<double>(), kRounding) << key;
  EXPECT_EQ(pairs[0].at("epoch"), 2.0 / 3);
  EXPECT_EQ(pairs[1].at("epoch"), 1.0);
}

TEST_F(LossScale, QuestionAnsweringIsNotTold) {
  TokenizedDataset data = four_samples();
  data.tensors.ints("labels").clear();
  data.tensors.ints("start_positions") = {0, 1, 1, 0}, data.tensors.ints("end_positions") = {1, 1, 1, 0};
  EXPECT_EQ(loss(true, question_answering, data, 2), loss(false, question_answering, data, 2));
}

}  // namespace
}  // namespace lathe
