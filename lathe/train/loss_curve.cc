#include "lathe/train/loss_curve.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "lathe/core/error.h"

namespace lathe {

LossCurve::LossCurve(const std::vector<nlohmann::ordered_json>& log_history) {
  for (const auto& entry : log_history) {
    const auto step = entry.find("step"), loss = entry.find("loss");
    if (step == entry.end() || loss == entry.end() || !step->is_number() || !loss->is_number()) continue;
    const auto at = step->get<int64_t>();
    const int64_t last = points_.empty() ? 0 : points_.back().step;
    if (at > last) add({at, loss->get<double>(), at - last});  // the mean since the line before
  }
}

LossCurve::LossCurve(const nlohmann::json& json, int64_t last_step, const std::string& file) {
  int64_t step = 0;
  try {
    steps_ = json.at("steps").get<int64_t>();
    for (const auto& point : json.at("points")) {
      points_.push_back({point.at(0).get<int64_t>(), point.at(1).get<double>(), point.at(2).get<int64_t>()});
      const Point& p = points_.back();
      if (p.step <= step || p.step > last_step || p.updates < 1 || !std::isfinite(p.loss))
        fail(ErrorCode::kInvalidData, "{}: \"losses\": found {} after step {} of {}, expected a later step",
             file, point.dump(), step, last_step);
      step = p.step;
    }
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorCode::kInvalidData, "{}: \"losses\": {}; expected steps and points", file, e.what());
  }
  if (steps_ < 1 || points_.size() > kMost)
    fail(ErrorCode::kInvalidData,
         "{}: \"losses\": found {} points of {} steps, expected at most {} of 1 or more", file,
         points_.size(), steps_, kMost);
}

void LossCurve::add(const Point& point) {
  if (!std::isfinite(point.loss)) return;
  if (points_.empty() || stretch(points_.back()) != stretch(point)) {
    points_.push_back(point);
  } else {
    Point& last = points_.back();
    last.updates += point.updates;
    last.loss +=
        (point.loss - last.loss) * static_cast<double>(point.updates) / static_cast<double>(last.updates);
    last.step = point.step;
  }
  if (points_.size() <= kMost) return;
  steps_ *= 2;
  for (const Point& each : std::exchange(points_, {})) add(each);
}

nlohmann::json LossCurve::to_json() const {
  nlohmann::json points = nlohmann::json::array();
  for (const Point& p : points_) points.push_back({p.step, p.loss, p.updates});
  return {{"steps", steps_}, {"points", std::move(points)}};
}

}  // namespace lathe
