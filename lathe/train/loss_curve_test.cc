#include "lathe/train/loss_curve.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "lathe/core/error_testing.h"

namespace lathe {
namespace {

using Point = LossCurve::Point;

TEST(LossCurve, KeepsTheLossOfEveryUpdateOfAShortRun) {
  LossCurve curve;
  for (int64_t step = 1; step <= 345; ++step) curve.add(step, 1.0 / static_cast<double>(step));
  ASSERT_EQ(curve.points().size(), 345u);
  EXPECT_EQ(curve.points()[7], (Point{8, 0.125, 1}));
}

TEST(LossCurve, HalvesItsPointsWhereTheyBecomeTooMany) {
  LossCurve curve;
  constexpr int64_t kSteps = 1'000'003;
  for (int64_t step = 1; step <= kSteps; ++step) {
    curve.add(step, static_cast<double>(step));
    ASSERT_LE(curve.points().size(), LossCurve::kMost);
  }
  EXPECT_GT(curve.points().size(), LossCurve::kMost / 2 - 1);
  int64_t updates = 0;
  double sum = 0;
  for (const Point& p : curve.points()) {
    EXPECT_EQ(p.updates, p.step - updates);  // no update is lost, and each counts once
    updates = p.step;
    sum += p.loss * static_cast<double>(p.updates);
  }
  EXPECT_EQ(updates, kSteps);
  EXPECT_NEAR(sum, 0.5 * kSteps * (kSteps + 1), 1e-9 * sum);
  EXPECT_EQ(curve.points()[0], (Point{512, 256.5, 512}));
}

TEST(LossCurve, GoesOnAsIfItHadNotStopped) {
  LossCurve whole, before;
  for (int64_t step = 1; step <= 5000; ++step) whole.add(step, 1 / static_cast<double>(step));
  for (int64_t step = 1; step <= 4321; ++step) before.add(step, 1 / static_cast<double>(step));
  LossCurve after(nlohmann::json::parse(before.to_json().dump()), 4321, "state");
  EXPECT_EQ(after, before);
  for (int64_t step = 4322; step <= 5000; ++step) after.add(step, 1 / static_cast<double>(step));
  EXPECT_EQ(after, whole);
}

TEST(LossCurve, ALossThatIsNotFiniteLeavesNoPoint) {
  LossCurve curve;
  curve.add(1, 2);
  curve.add(2, std::numeric_limits<double>::quiet_NaN());
  curve.add(3, std::numeric_limits<double>::infinity());
  curve.add(4, 1);
  EXPECT_EQ(curve.points(), (std::vector<Point>{{1, 2, 1}, {4, 1, 1}}));
}

TEST(LossCurve, OfALogHistoryItTakesTheLossLines) {
  using Json = nlohmann::ordered_json;
  const LossCurve curve({Json{{"loss", 0.5}, {"step", 10}}, Json{{"eval_loss", 0.4}, {"step", 10}},
                         Json{{"loss", nullptr}, {"step", 15}}, Json{{"loss", 0.3}, {"step", 20}},
                         Json{{"loss", 0.2}, {"step", 20}}, Json{{"loss", 0.1}}});
  EXPECT_EQ(curve.points(), (std::vector<Point>{{10, 0.5, 10}, {20, 0.3, 10}}));  // means of ten updates
}

TEST(LossCurve, RefusesWhatNoRunGives) {
  for (const char* text :
       {"[]", "{}", R"({"steps": 0, "points": []})", R"({"steps": 1, "points": [[1, 2]]})",
        R"({"steps": 1, "points": [[1, "x", 1]]})", R"({"steps": 1, "points": [[0, 1, 1]]})",
        R"({"steps": 1, "points": [[11, 1, 1]]})", R"({"steps": 1, "points": [[2, 1, 1], [2, 1, 1]]})",
        R"({"steps": 1, "points": [[2, 1, 0]]})"})
    EXPECT_TRUE(
        message_of(ErrorCode::kInvalidData, [&] { LossCurve(nlohmann::json::parse(text), 10, "state.file"); })
            .starts_with("state.file: \"losses\": "))
        << text;
}

}  // namespace
}  // namespace lathe
