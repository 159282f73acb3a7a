#include "lathe/train/loss_scaler.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "lathe/core/source_folder_testing.h"
#include "lathe/settings/lr_schedule.h"

namespace lathe {
namespace {

/// n updates without overflow.
void pass(LossScaler& scaler, int64_t n) {
  for (int64_t i = 0; i < n; ++i) EXPECT_TRUE(scaler.finish(true, true));
}

TEST(LossScaler, DoublesAfterSoManyGoodUpdatesInARow) {
  LossScaler scaler;
  EXPECT_EQ(scaler.scale(), 65536);
  pass(scaler, LossScaler::kGrowthInterval - 1);
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_FALSE(scaler.finish(true, false));
  EXPECT_EQ(scaler.scale(), 32768);
  pass(scaler, LossScaler::kGrowthInterval - 1);
  EXPECT_EQ(scaler.scale(), 32768);
  pass(scaler, 1);
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_EQ(scaler.state().growth_tracker, 0);
}

TEST(LossScaler, ALossThatIsNotFiniteIsAnOverflow) {
  LossScaler scaler;
  EXPECT_FALSE(scaler.finish(false, true));
  EXPECT_EQ(scaler.scale(), 32768);
}

TEST(LossScaler, StaysWithinFloat) {
  const double largest = 0x1p127;
  LossScaler scaler({largest, LossScaler::kGrowthInterval - 1, 0});
  pass(scaler, 1);
  EXPECT_EQ(scaler.scale(), largest);
  EXPECT_EQ(scaler.state().growth_tracker, 0);
}

TEST(LossScaler, GivesUpBelowTheSmallestScale) {
  LossScaler scaler;
  int updates = 0;
  for (; !scaler.hopeless() && updates < 100; ++updates) scaler.finish(true, false);
  EXPECT_EQ(scaler.scale(), LossScaler::kSmallestScale / 2);
  EXPECT_EQ(updates, 31);  // from 2^16 to 2^-15
}

TEST(LossScaler, GivesUpAfterBadLossesInARowOnly) {
  LossScaler scaler;
  for (int64_t i = 1; i < LossScaler::kMostBadLosses; ++i) scaler.finish(false, false);
  EXPECT_FALSE(scaler.hopeless());
  scaler.finish(true, false);
  scaler.finish(false, false);
  EXPECT_FALSE(scaler.hopeless());
  LossScaler fresh;
  for (int64_t i = 0; i < LossScaler::kMostBadLosses; ++i) fresh.finish(false, false);
  EXPECT_TRUE(fresh.hopeless());
  EXPECT_GT(fresh.scale(), LossScaler::kSmallestScale);
}

TEST(LossScaler, ASavedStateGoesOn) {
  LossScaler whole, first;
  const auto finite = [](int64_t i) { return i % 977 != 5; };
  for (int64_t i = 0; i < 5000; ++i) whole.finish(true, finite(i));
  for (int64_t i = 0; i < 2345; ++i) first.finish(true, finite(i));
  LossScaler second(first.state());
  for (int64_t i = 2345; i < 5000; ++i) second.finish(true, finite(i));
  EXPECT_EQ(second.scale(), whole.scale());
  EXPECT_EQ(second.state().growth_tracker, whole.state().growth_tracker);
}

// Scale, learning rate and AdamW's step count of every update, as torch and accelerate have them.
TEST(LossScaler, EqualsGradScaler) {
  std::ifstream file(source_path("tests/golden/scaler/trace.json"));
  ASSERT_TRUE(file);
  const nlohmann::json trace = nlohmann::json::parse(file);
  const std::set<int64_t> overflow = trace["overflow"].get<std::set<int64_t>>();
  const int64_t updates = trace["updates"];
  const LrSchedule schedule("linear", trace["warmup_steps"], updates, trace["learning_rate"]);
  LossScaler scaler;
  int64_t applied = 0;
  size_t row = 0;
  for (int64_t i = 0; i < updates; ++i) {
    const bool expected = row < trace["rows"].size() && trace["rows"][row][0] == i;
    const nlohmann::json wanted = expected ? trace["rows"][row++] : nlohmann::json();
    if (expected) {
      ASSERT_EQ(overflow.count(i) > 0, wanted[1].get<bool>());
      EXPECT_EQ(scaler.scale(), wanted[2].get<double>()) << i;
      EXPECT_EQ(scaler.state().growth_tracker, wanted[3].get<int64_t>()) << i;
      EXPECT_NEAR(schedule.learning_rate(applied), wanted[4].get<double>(), 5e-5 * 1e-15) << i;
    }
    applied += scaler.finish(true, overflow.count(i) == 0);
    if (expected) {
      EXPECT_EQ(applied, wanted[5].get<int64_t>()) << i;
    }
  }
  EXPECT_EQ(row, trace["rows"].size());
  EXPECT_GT(row, 20u);
}

}  // namespace
}  // namespace lathe
