#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace lathe {

/// The loss of every update of a run, for charts.  A long run has at most kMost points: when one more comes,
/// each point becomes the mean of twice as many updates.
class LossCurve {
 public:
  static constexpr size_t kMost = 2000;
  struct Point {
    int64_t step = 0;     ///< of its last update
    double loss = 0;      ///< the mean
    int64_t updates = 0;  ///< of how many
    bool operator==(const Point&) const = default;
  };

  LossCurve() = default;
  /// The loss lines of a log history: all that is known of a run that kept no curve.
  explicit LossCurve(const std::vector<nlohmann::ordered_json>& log_history);
  /// What to_json gave.  Errors: kInvalidData, naming `file`, for what no run of `last_step` updates gives.
  LossCurve(const nlohmann::json& json, int64_t last_step, const std::string& file);

  /// Steps rise.  A loss that is not finite leaves no point.
  void add(int64_t step, double loss) { add({step, loss, 1}); }
  /// By rising step.
  const std::vector<Point>& points() const { return points_; }
  nlohmann::json to_json() const;
  bool operator==(const LossCurve&) const = default;

 private:
  void add(const Point& point);
  /// The stretch of steps that become one point, counted from 0.
  int64_t stretch(const Point& point) const { return (point.step - 1) / steps_; }

  int64_t steps_ = 1;  // of a stretch
  std::vector<Point> points_;
};

}  // namespace lathe
