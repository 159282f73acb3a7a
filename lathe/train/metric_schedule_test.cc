#include "lathe/train/metric_schedule.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "lathe/core/error.h"

namespace lathe {
namespace {

using nlohmann::json;

TEST(MetricSchedule, EqualsTorchAndTransformersAndGoesOnFromItsState) {
  std::ifstream file(LATHE_SOURCE_DIR "/tests/golden/arguments/metric_schedules.json");
  ASSERT_TRUE(file);
  std::set<std::string> seen;
  bool changed = false;
  for (const auto& row : json::parse(file)) {
    const auto name = row["name"].get<std::string>();
    MetricSchedule schedule(name, row["lr"], row["kwargs"]);
    seen.insert(name);
    for (size_t i = 0; i < row["metrics"].size(); ++i) {
      // the same multiplications in the same order
      EXPECT_EQ(schedule.learning_rate(), row["rates"][i].get<double>())
          << name << " evaluation " << i << row["kwargs"];
      changed |= row["rates"][i] != row["lr"];
      schedule.step(row["metrics"][i]);
      MetricSchedule next(name, row["lr"], row["kwargs"]);
      next.restore(json::parse(schedule.state().dump()));
      schedule = next;
    }
  }
  EXPECT_TRUE(changed);
  EXPECT_EQ(seen.size(), MetricSchedule::names().size());
}

TEST(MetricSchedule, SettingsThatDoNotFitAreNamed) {
  const auto error = [](const std::string& name, const json& kwargs) -> std::string {
    try {
      MetricSchedule(name, 1e-3, kwargs);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUsage);
      return e.what();
    }
    return "no error";
  };
  EXPECT_NE(error("greedy", {{"factor", 1.0}}).find("'factor' is 1.0, wants less than 1"), std::string::npos);
  EXPECT_NE(error("greedy", {{"mode", "up"}}).find("wants one of max, min"), std::string::npos);
  EXPECT_NE(error("greedy", {{"patience", -1}}).find("wants a count"), std::string::npos);
  EXPECT_NE(error("reduce_lr_on_plateau", {{"smooth", true}}).find("does not take"), std::string::npos);
  EXPECT_EQ(error("greedy", {{"smooth", true}, {"verbose", true}}), "no error");
}

}  // namespace
}  // namespace lathe
