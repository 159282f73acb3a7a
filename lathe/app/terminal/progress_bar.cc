#include "lathe/app/terminal/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe {
namespace {

constexpr double kRedraw = 0.1;     // seconds between two drawings
constexpr double kSmoothing = 0.3;  // weight of the newest rate

std::string rate_text(double rate, ProgressUnit unit) {
  if (unit == ProgressUnit::kBytes) return (rate <= 0 ? "?" : byte_text(rate)) + "/s";
  if (rate <= 0) return "?it/s";
  return rate >= 1 ? fmt::format("{:.2f}it/s", rate) : fmt::format("{:.2f}s/it", 1 / rate);
}

std::string left_text(int64_t left, double rate) {
  return rate > 0 ? clock_text(static_cast<double>(std::max<int64_t>(left, 0)) / rate) : "?";
}

}  // namespace

ProgressBar::ProgressBar(std::string label, int64_t total, int64_t done, double now, ProgressUnit unit)
    : label_(std::move(label)),
      unit_(unit),
      total_(total),
      begin_(done),
      done_(done),
      measured_done_(done),
      start_(now),
      drawn_(now - kRedraw),
      measured_at_(now) {}

bool ProgressBar::update(int64_t done, std::optional<double> loss, double now) {
  done_ = done;
  if (loss) loss_ = loss;
  if (now - drawn_ < kRedraw && done < total_) return false;
  drawn_ = now;
  if (done > measured_done_ && now > measured_at_) {
    const double newest = static_cast<double>(done - measured_done_) / (now - measured_at_);
    rate_ = rate_ > 0 ? (1 - kSmoothing) * rate_ + kSmoothing * newest : newest;
    measured_done_ = done;
    measured_at_ = now;
  }
  return true;
}

std::string ProgressBar::line(int width, bool unicode, double now) const {
  const double share =
      total_ > 0 ? std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0.0, 1.0) : 0;
  const std::string left = left_text(total_ - done_, rate_);
  std::string head = label_.empty() ? "" : label_ + ": ";
  head += fmt::format("{:3}%", static_cast<int>(share * 100));
  std::string tail = fmt::format(" {}/{} [{}<{}, {}", amount(done_), amount(total_), clock_text(now - start_),
                                 left, rate_text(rate_, unit_));
  const std::string loss = loss_ ? fmt::format(", loss={:.4g}", *loss_) : "";
  if (static_cast<int>(head.size() + tail.size() + loss.size()) < width) tail += loss;
  tail += "]";
  const int cells = width - static_cast<int>(head.size() + tail.size()) - 2;
  if (cells >= 4) return head + "|" + drawn_bar(share, cells, unicode) + "|" + tail;
  return (head + tail).substr(0, static_cast<size_t>(std::max(width, 0)));
}

std::string ProgressBar::message(double now) const {
  const double rate = static_cast<double>(done_ - begin_) / std::max(now - start_, 1e-9);
  const std::string what = !label_.empty() ? label_ + ": " : unit_ == ProgressUnit::kSteps ? "step " : "";
  return fmt::format("{}{} of {}{}, {}, {} left", what, amount(done_), amount(total_),
                     loss_ ? fmt::format(", loss {:.4g}", *loss_) : "", rate_text(rate, unit_),
                     left_text(total_ - done_, rate));
}

std::string ProgressBar::amount(int64_t value) const {
  return unit_ == ProgressUnit::kBytes ? byte_text(static_cast<double>(value)) : std::to_string(value);
}

std::string byte_text(double bytes) {
  if (bytes < 1000) return fmt::format("{:.0f}B", bytes);
  const char* unit = "kMGTPE";
  while (bytes >= 999'500 && unit[1] != '\0') bytes /= 1000, ++unit;
  bytes /= 1000;
  return fmt::format("{:.{}f}{}B", bytes, bytes < 9.995 ? 2 : bytes < 99.95 ? 1 : 0, *unit);
}

std::string clock_text(double seconds) {
  const auto s = static_cast<int64_t>(std::max(seconds, 0.0));
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{:02}:{:02}", s / 60, s % 60);
}

std::string drawn_bar(double share, int cells, bool unicode) {
  const int parts = unicode ? 8 : 1;
  const int filled = static_cast<int>(share * cells * parts);
  std::string out;
  for (int i = 0; i < filled / parts; ++i) out += unicode ? "█" : "#";
  int used = filled / parts;
  if (filled % parts != 0) {
    static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    out += kEighths[filled % parts];
    ++used;
  }
  return out + std::string(static_cast<size_t>(cells - used), ' ');
}

}  // namespace lathe
