#pragma once
#include <algorithm>
#include <optional>

namespace lathe {

/// When a file about a run that is going on is due again, so that writing it takes at most a twentieth of the
/// time.  Times are seconds from any fixed moment.
class Pace {
 public:
  static constexpr double kLeastPause = 10;  ///< between two files that differ by some updates only

  bool due(double now, double least_pause) const {
    constexpr double kTimesOfOne = 20;
    return !written_at_ || now - *written_at_ >= std::max(least_pause, kTimesOfOne * took_);
  }
  void wrote(double from, double to) { written_at_ = to, took_ = to - from; }

 private:
  std::optional<double> written_at_;
  double took_ = 0;
};

}  // namespace lathe
