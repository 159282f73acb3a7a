#include "lathe/train/early_stopping.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace lathe {
namespace {

TEST(EarlyStopping, CountsEvaluationsWithoutGainAndGoesOnCounting) {
  nlohmann::json callbacks = {{"TrainerControl", {{"args", {{"should_save", false}}}}}};
  EarlyStopping first(2, 0.1, callbacks);
  EXPECT_FALSE(first.step(1.0, {}, false, callbacks));
  EXPECT_FALSE(first.step(0.95, 1.0, false, callbacks));  // better, but by less than 0.1
  EXPECT_FALSE(first.step(0.8, 0.95, false, callbacks));
  EXPECT_FALSE(first.step(0.9, 0.8, false, callbacks));
  EXPECT_TRUE(callbacks.contains("TrainerControl"));
  EXPECT_EQ(callbacks["EarlyStoppingCallback"]["attributes"]["early_stopping_patience_counter"], 1);

  EarlyStopping resumed(2, 0.1, callbacks);
  EXPECT_FALSE(resumed.exhausted());
  EXPECT_TRUE(resumed.step(0.8, 0.8, false, callbacks));
  EXPECT_TRUE(EarlyStopping(2, 0.1, callbacks).exhausted());
  EXPECT_FALSE(EarlyStopping(3, 0.1, callbacks).exhausted());
}

TEST(EarlyStopping, AMetricThatIsNoNumberIsNotBetterEvenAtFirst) {
  nlohmann::json callbacks;
  EarlyStopping stopping(2, 0, callbacks);
  EXPECT_FALSE(stopping.step(std::numeric_limits<double>::quiet_NaN(), {}, true, callbacks));
  EXPECT_TRUE(stopping.step(std::numeric_limits<double>::quiet_NaN(), {}, true, callbacks));
}

TEST(EarlyStopping, AGainMustBeMoreThanTheThreshold) {
  nlohmann::json callbacks;
  EXPECT_TRUE(EarlyStopping(1, 0.25, callbacks).step(0.75, 1.0, false, callbacks));
}

TEST(EarlyStopping, KnowsWhichWayIsBetter) {
  nlohmann::json callbacks;
  EarlyStopping stopping(1, 0, callbacks);
  EXPECT_FALSE(stopping.step(0.7, 0.6, true, callbacks));
  EXPECT_TRUE(stopping.step(0.5, 0.7, true, callbacks));
}

}  // namespace
}  // namespace lathe
