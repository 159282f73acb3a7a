#include "lathe/train/log_format.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lathe/core/error.h"

namespace lathe {
namespace {

TEST(LogLine, LooksLikeHuggingFaces) {
  EXPECT_EQ(log_line({{"loss", 0.6975},
                      {"grad_norm", 0.5073649883270264},
                      {"learning_rate", 1e-05},
                      {"epoch", 0.25},
                      {"total_flos", 123}}),
            "{'loss': 0.6975, 'grad_norm': 0.5073649883270264, 'learning_rate': 1e-05, 'epoch': 0.25}");
}

TEST(ScoreKey, IsOfAnEvaluationAndSaysHowGood) {
  for (const char* score : {"eval_loss", "eval_accuracy", "eval_mnli_mm_accuracy"})
    EXPECT_TRUE(is_score_key(score)) << score;
  for (const char* other : {"loss", "epoch", "step", "eval_runtime", "eval_samples",
                            "eval_samples_per_second", "eval_int8_change_accuracy", "eval_fp8_change_loss"})
    EXPECT_FALSE(is_score_key(other)) << other;
}

TEST(QuantizationTable, HasWhatThereIsToCompare) {
  EXPECT_EQ(quantization_table("eval", {{"eval_accuracy", 0.8554}, {"eval_loss", 0.5}}, "", "bf16"), "");
  EXPECT_EQ(quantization_table("eval",
                               {{"eval_accuracy", 0.75},
                                {"eval_int8_change_accuracy", -0.125},
                                {"eval_loss", 0.5},
                                {"eval_int8_change_loss", 0.0625},
                                {"eval_runtime", 1.0}},
                               "int8", "bf16"),
            "***** eval: int8 compared with bf16 *****\n"
            "                                bf16      int8    change\n"
            "  accuracy                    0.8750    0.7500   -0.1250\n"
            "  loss                        0.4375    0.5000   +0.0625\n");
}

TEST(MetricsBlock, AlignedSortedAndReadable) {
  // As trainer_pt_utils.log_metrics prints the same metrics.
  EXPECT_EQ(metrics_block("train", {{"train_runtime", 0.1678},
                                    {"epoch", 1.0},
                                    {"total_flos", 13421772800.0},
                                    {"train_loss", 0.69754999},
                                    {"train_samples", 20},
                                    {"train_mem_cpu_alloc_delta", 5242880}}),
            "***** train metrics *****\n"
            "  epoch                     =        1.0\n"
            "  total_flos                =       12GF\n"
            "  train_loss                =     0.6975\n"
            "  train_mem_cpu_alloc_delta =        5MB\n"
            "  train_runtime             = 0:00:00.16\n"
            "  train_samples             =         20\n");
}

TEST(Duration, AsTimedelta) {
  EXPECT_EQ(duration_text(3725.5), "1:02:05.50");
  EXPECT_EQ(duration_text(59.999), "0:00:59.99");
  EXPECT_EQ(duration_text(90061), "1 day, 1:01:01.00");
  EXPECT_EQ(duration_text(200000), "2 days, 7:33:20.00");
}

TEST(Banner, NumbersHaveCommas) {
  const auto lines = banner_lines({.examples = 3668,
                                   .epochs = 3,
                                   .update_steps_per_epoch = 115,
                                   .batch_size_per_device = 32,
                                   .total_batch_size = 32,
                                   .total_steps = 345,
                                   .trainable_parameters = 22713986});
  ASSERT_EQ(lines.size(), 9u);
  EXPECT_EQ(lines[0], "***** Running training *****");
  EXPECT_EQ(lines[1], "  Num examples = 3,668");
  EXPECT_EQ(lines[8], "  Number of trainable parameters = 22,713,986");
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(-123456), "-123,456");
  EXPECT_EQ(with_commas(-1234567), "-1,234,567");
}

TEST(LogLevel, PassiveIsInfoAndUnknownIsRefused) {
  EXPECT_EQ(log_level_from("passive"), LogLevel::kInfo);
  EXPECT_EQ(log_level_from("error"), LogLevel::kError);
  EXPECT_THROW(log_level_from("loud"), Error);
}

}  // namespace
}  // namespace lathe
