#include "lathe/settings/metric_schedule.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "lathe/core/error.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/io/testdata.h"
#include "lathe/text/python_format.h"

namespace lathe {
namespace {

using nlohmann::json;

TEST(MetricSchedule, EqualsTorchAndTransformersAndGoesOnFromItsState) {
  std::ifstream file(source_path("tests/golden/arguments/metric_schedules.json"));
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

TEST(MetricSchedule, AResetLeavesNothingOfWhatWasBefore) {
  const json kwargs = {{"patience", 0},  {"factor", 0.5},    {"min_lr", 0.5},
                       {"smooth", true}, {"window_size", 4}, {"reset_start", 1}};
  MetricSchedule schedule("greedy", 1.0, kwargs);
  json wanted = schedule.state();
  schedule.step(1);
  schedule.step(2);  // the rate falls to min_lr, where it stays for one evaluation
  EXPECT_FALSE(schedule.state().contains("best"));
  wanted["evaluations"] = 2;
  EXPECT_EQ(schedule.state(), wanted);
}

TEST(MetricSchedule, BeforeTheFirstEvaluationThereIsNoBestInAStateEither) {
  for (const char* mode : {"min", "max"}) {
    const json kwargs = {{"mode", mode}};
    MetricSchedule schedule("reduce_lr_on_plateau", 1e-3, kwargs);
    schedule.restore(MetricSchedule("reduce_lr_on_plateau", 1e-3, kwargs).state());
    schedule.step(0.5);
    EXPECT_EQ(schedule.state().value("best", 0.0), 0.5) << mode;
  }
}

/// Compares a schedule of these settings after these metrics with state_dict() of the Python object.
void expect_python_state(const std::string& name, const char* kwargs, std::vector<double> metrics,
                         const char* text) {
  const json python = parse_python_json(text, name);
  MetricSchedule schedule(name, 1e-3, json::parse(kwargs)), next = schedule;
  for (const double metric : metrics) schedule.step(metric);
  EXPECT_EQ(schedule.python_state(), python) << schedule.python_state();
  next.restore(MetricSchedule::state_of_python(python, name));
  EXPECT_EQ(next.state(), schedule.state());
}

// Written by torch 2.11 and transformers 5.24.
TEST(MetricSchedule, IsThatOfPythonThereAndBack) {
  const char* plateau = R"({"factor": 0.5, "patience": 1, "cooldown": 2})";
  expect_python_state("reduce_lr_on_plateau", plateau, {}, R"({"factor": 0.5, "default_min_lr": 0,
      "min_lrs": [0, 0], "patience": 1, "cooldown": 2, "eps": 1e-08, "last_epoch": 0, "_last_lr": [0.001, 0.001],
      "mode_worse": Infinity, "mode": "min", "threshold": 0.0001, "threshold_mode": "rel", "best": Infinity,
      "cooldown_counter": 0, "num_bad_epochs": 0})");
  expect_python_state("reduce_lr_on_plateau", plateau, {1.0, 0.5, 0.6, 0.7, 0.9, 0.4, 0.6},
                      R"({"factor": 0.5, "default_min_lr": 0, "min_lrs": [0, 0], "patience": 1, "cooldown": 2,
      "eps": 1e-08, "last_epoch": 7, "_last_lr": [0.0005, 0.0005], "mode_worse": Infinity, "mode": "min",
      "threshold": 0.0001, "threshold_mode": "rel", "best": 0.4, "cooldown_counter": 0, "num_bad_epochs": 1})");
  expect_python_state(  // without "verbose": it prints, and Python keeps its own where there is none
      "greedy",
      R"({"factor": 0.5, "patience": 0, "mode": "max", "min_lr": 1e-6, "smooth": true, "window_size": 2,
          "warmup": 3})",
      {1.0, 0.5, 0.6, 0.7, 0.9}, R"({"factor": 0.5, "min_lrs": [1e-06, 1e-06], "max_lrs": [1.0, 1.0],
      "patience": 0, "cooldown": 0, "warmup": 3, "cooldown_counter": 0, "warmup_counter": 0, "mode": "max",
      "threshold": 1e-06, "threshold_mode": "abs", "best": 1.0, "num_bad_epochs": 0, "num_good_epochs": 0,
      "eps": 1e-08, "last_epoch": 5, "smooth": true, "window_size": 2, "reset_start": 500,
      "reset_start_original": 500, "_last_lr": [0.001, 0.001], "_init_lrs": [0.001, 0.001],
      "_streaming_avg": {"window_size": 2, "values": [0.7, 0.9], "sum": 1.6}})");
}

TEST(MetricSchedule, AStateOfPythonThatDoesNotFitIsAnError) {
  json python = MetricSchedule("greedy", 1e-3, {}).python_state();
  python["_last_lr"] = {1e-3, 1e-4};
  EXPECT_NE(
      error_of([&] { MetricSchedule::state_of_python(python, "scheduler.pt"); }, ErrorCode::kUnsupported)
          .find("scheduler.pt: \"_last_lr\": found [0.001,0.0001], expected one learning rate"),
      std::string::npos);
  python["_last_lr"] = {1e-3, 1e-3};
  python["num_bad_epochs"] = "many";
  EXPECT_NE(
      error_of([&] { MetricSchedule::state_of_python(python, "scheduler.pt"); }, ErrorCode::kInvalidData)
          .find("num_bad_epochs"),
      std::string::npos);
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
  EXPECT_NE(error("greedy", {{"factor", 1.0}}).find("'factor' is 1.0, expected less than 1"),
            std::string::npos);
  EXPECT_NE(error("greedy", {{"mode", "up"}}).find("expected one of max, min"), std::string::npos);
  EXPECT_NE(error("greedy", {{"patience", -1}}).find("expected a count"), std::string::npos);
  EXPECT_NE(error("reduce_lr_on_plateau", {{"smooth", true}}).find("does not take"), std::string::npos);
  EXPECT_EQ(error("greedy", {{"smooth", true}, {"verbose", true}}), "no error");
}

}  // namespace
}  // namespace lathe
