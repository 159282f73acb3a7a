#include "lathe/settings/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/core/source_folder_testing.h"

namespace lathe {
namespace {

using nlohmann::json;

TEST(LrSchedule, EqualsTransformersOnEverySchedule) {
  std::ifstream file(source_path("tests/golden/arguments/schedules.json"));
  ASSERT_TRUE(file);
  std::set<std::string> seen;
  for (const auto& row : json::parse(file)) {
    const auto name = row["name"].get<std::string>();
    const LrSchedule schedule(name, row["warmup"], row["steps"], row["lr"], row["kwargs"]);
    seen.insert(name);
    int64_t step = 0;
    // A factor is at most 1 and a few roundings long: 1e-15 of the peak.
    for (const double rate : row["rates"]) {
      EXPECT_NEAR(schedule.learning_rate(step), rate, 5e-5 * 1e-15)
          << name << " step " << step << row["kwargs"];
      ++step;
    }
  }
  EXPECT_EQ(seen.size(), LrSchedule::names().size());
}

TEST(LrSchedule, DegenerateRunsStayFinite) {
  EXPECT_EQ(LrSchedule("linear", 0, 0, 1e-3).factor(0), 0.0);
  EXPECT_EQ(LrSchedule("polynomial", 5, 5, 1e-3).factor(5), 1e-7 / 1e-3);
}

TEST(LrSchedule, InverseSqrtWithoutWarmupFallsAsAfterTenThousandUpdates) {
  EXPECT_DOUBLE_EQ(LrSchedule("inverse_sqrt", 0, 1000, 1e-3).factor(100), 1 / std::sqrt(1.01));
}

std::string error_of(const std::string& name, const json& kwargs, double rate = 5e-5) {
  try {
    LrSchedule(name, 2, 10, rate, kwargs);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUsage);
    return e.what();
  }
  return "no error";
}

TEST(LrSchedule, SettingsThatDoNotFitAreNamed) {
  EXPECT_NE(error_of("linaer", {}).find("found 'linaer', expected one of linear, cosine"), std::string::npos);
  EXPECT_NE(error_of("linear", {{"power", 2}}).find("found 'power', which linear does not take"),
            std::string::npos);
  EXPECT_NE(error_of("cosine", {{"num_cycles", "x"}}).find("'num_cycles' is \"x\", expected a number"),
            std::string::npos);
  EXPECT_NE(error_of("cosine_with_min_lr", {}).find("exactly one of min_lr and min_lr_rate, found none"),
            std::string::npos);
  EXPECT_NE(error_of("cosine_with_min_lr", {{"min_lr", 1e-6}, {"min_lr_rate", 0.1}}).find("found both"),
            std::string::npos);
  EXPECT_NE(error_of("warmup_stable_decay", {}).find("expected num_decay_steps"), std::string::npos);
  EXPECT_NE(error_of("warmup_stable_decay", {{"num_decay_steps", 3}, {"decay_type", "step"}})
                .find("expected one of"),
            std::string::npos);
  EXPECT_NE(error_of("polynomial", {}, 1e-8).find("expected less than --learning_rate"), std::string::npos);
  EXPECT_NE(error_of("cosine", 3).find("expected a JSON object"), std::string::npos);
}

}  // namespace
}  // namespace lathe
