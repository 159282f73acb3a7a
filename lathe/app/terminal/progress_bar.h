#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace lathe {

enum class ProgressUnit { kSteps, kBytes };

/// The progress and speed of some work, and their text on one line of a terminal.  It draws nothing itself
/// and knows no clock: times are seconds from any fixed moment.
class ProgressBar {
 public:
  /// label: printed in front, may be empty.  done: where a resumed run starts.
  ProgressBar(std::string label, int64_t total, int64_t done, double now,
              ProgressUnit unit = ProgressUnit::kSteps);

  /// Moves to `done`.  True if the line should be drawn again: at most ten times a second, and at the end.
  bool update(int64_t done, std::optional<double> loss, double now);

  /// " 45%|####      | 155/345 [00:12<00:15, 12.60it/s, loss=0.4532]" in at most `width` columns.  If it is
  /// too long, first the bar is left out, then the loss, then the line is cut.
  std::string line(int width, bool unicode, double now) const;

  /// "step 155 of 345, loss 0.4532, 12.60it/s, 00:15 left", for a log: the rate is the mean so far.
  std::string message(double now) const;

 private:
  std::string amount(int64_t value) const;

  std::string label_;
  ProgressUnit unit_;
  int64_t total_, begin_, done_, measured_done_;
  double start_, drawn_, measured_at_;
  double rate_ = 0;  ///< per second, smoothed; 0 until known
  std::optional<double> loss_;
};

/// `share` (0 to 1) of `cells` columns filled, with block characters in eighths of a column or '#'.
std::string drawn_bar(double share, int cells, bool unicode);

/// 512 → "512B", 91234567 → "91.2MB": powers of 1000, three digits
std::string byte_text(double bytes);

/// 75 → "01:15", 3725 → "1:02:05"
std::string clock_text(double seconds);

}  // namespace lathe
