#include "lathe/report/loss_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lathe/core/strtod_c.h"

namespace lathe {
namespace {

constexpr std::string_view kTitles = "step,loss\n";

/// The value of a field that ends with `end`, which is passed over.
double number_at(const char*& at, char end) {
  char* after = nullptr;
  const double value = strtod_c(at, &after);
  const bool whole = after != at && *after == end;
  at = after + (whole ? 1 : 0);
  return whole ? value : NAN;
}

}  // namespace

LossFile::LossFile(FileSystem& fs, const std::string& folder, std::function<const LossCurve&()> losses,
                   std::function<double()> now, LogSink say)
    : fs_(fs),
      path_(join_path(folder, kLossFile)),
      losses_(std::move(losses)),
      now_(std::move(now)),
      say_(std::move(say)) {}

void LossFile::step() {
  if (pace_.due(now_(), Pace::kLeastPause)) write();
}

void LossFile::write() {
  const std::vector<LossCurve::Point>& points = losses_().points();
  if (failed_ || points.empty()) return;
  const double begin = now_();
  std::string text(kTitles);
  for (const LossCurve::Point& p : points) text += fmt::format("{},{:.7g}\n", p.step, p.loss);
  const Status status = fs_.write_atomic(path_, text);
  pace_.wrote(begin, now_());
  failed_ = !status.ok();
  if (failed_ && say_) say_(LogLevel::kWarning, "the losses end here: " + status.message());
}

std::vector<std::pair<double, double>> read_losses(FileSystem& fs, const std::string& folder) {
  const std::string path = join_path(folder, kLossFile);
  std::vector<std::pair<double, double>> points;
  if (!fs.exists(path)) return points;
  const std::string text = fs.read(path).value();
  if (!text.starts_with(kTitles))
    fail(ErrorCode::kInvalidData, "{}:1: expected step,loss; remove the file", path);
  for (const char* at = text.c_str() + kTitles.size(); *at != '\0';) {
    const double step = number_at(at, ',');
    const double loss = std::isfinite(step) ? number_at(at, '\n') : NAN;
    if (!std::isfinite(loss) || (!points.empty() && step <= points.back().first))
      fail(ErrorCode::kInvalidData,
           "{}:{}: expected a step after the one before, a comma and a loss; remove the file", path,
           points.size() + 2);
    points.emplace_back(step, loss);
  }
  return points;
}

}  // namespace lathe
