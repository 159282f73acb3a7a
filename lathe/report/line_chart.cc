#include "lathe/report/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "lathe/report/html.h"

namespace lathe {
namespace {

using Point = std::pair<double, double>;

constexpr double kMost = std::numeric_limits<double>::max();
constexpr size_t kPoints = 500, kColours = 6;

bool finite(const Point& p) { return std::isfinite(p.first) && std::isfinite(p.second); }

struct Range {
  double low = kMost, high = -kMost;
  bool empty() const { return low > high; }
  void add(double x) { low = std::min(low, x), high = std::max(high, x); }
  /// Something to either side, where there is one value only.
  void widen() {
    if (low < high) return;
    const double room = std::max(std::abs(low) * 0.05, low == 0 ? 1 : 1e-300);
    low = std::max(low - room, -kMost), high = std::min(high + room, kMost);
  }
  /// 0 at low, 1 at high; halves, for high − low may be infinite.
  double share(double x) const {
    const double all = high / 2 - low / 2;
    return all > 0 ? std::clamp((x / 2 - low / 2) / all, 0.0, 1.0) : 0.5;
  }
};

struct Frame {
  Range x, y;
  explicit Frame(const LineChart& chart) {
    for (const Curve& curve : chart.curves)
      for (const auto* points : {&curve.points, &curve.behind})
        for (const Point& p : *points)
          if (finite(p)) x.add(p.first), y.add(p.second);
    if (!empty()) x.widen(), y.widen();
  }
  bool empty() const { return x.empty(); }
};

/// 1, 2 or 5 times a power of ten, at least `step`.
double round_step(double step) {
  const double power = std::pow(10.0, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

}  // namespace

std::vector<double> ticks(double low, double high, int wanted) {
  if (!std::isfinite(low) || !std::isfinite(high)) return {0};
  wanted = std::clamp(wanted, 1, 100);
  const double step = round_step(std::max(high / wanted - low / wanted, 0.0));
  if (!std::isfinite(step) || step < std::numeric_limits<double>::min()) return {low};
  std::vector<double> found;
  const double first = std::ceil(low / step);
  for (int i = 0; i <= wanted + 1; ++i) {  // counted: where step is lost in first + i, no end would come
    const double value = (first + i) * step;
    if (!std::isfinite(value) || value > high) break;
    if (value >= low && (found.empty() || value > found.back())) found.push_back(value);
  }
  if (found.empty()) found.push_back(low);
  return found;
}

std::string tick_text(double value) {
  constexpr std::array<std::pair<double, char>, 3> kUnits = {{{1e9, 'G'}, {1e6, 'M'}, {1e3, 'k'}}};
  const double size = std::abs(value);
  for (const auto& [unit, letter] : kUnits)
    if (size >= unit * 10 && size < unit * 1e4) return fmt::format("{:.5g}{}", value / unit, letter);
  return fmt::format("{:.5g}", value == 0 ? 0.0 : value);
}

std::vector<Point> thinned(const std::vector<Point>& points, size_t most) {
  most = std::max<size_t>(most, 4);
  if (points.size() <= most) return points;
  std::vector<Point> out = {points.front()};
  const size_t stretches = (most - 2) / 2, inner = points.size() - 2;
  for (size_t k = 0; k < stretches; ++k) {
    const size_t begin = 1 + inner * k / stretches, end = 1 + inner * (k + 1) / stretches;
    size_t least = begin, greatest = begin;
    for (size_t i = begin; i < end; ++i) {
      if (!finite(points[i])) continue;
      if (!finite(points[least]) || points[i].second < points[least].second) least = i;
      if (!finite(points[greatest]) || points[i].second > points[greatest].second) greatest = i;
    }
    out.push_back(points[std::min(least, greatest)]);
    if (least != greatest) out.push_back(points[std::max(least, greatest)]);
  }
  out.push_back(points.back());
  return out;
}

std::vector<Point> means(const std::vector<Point>& points, size_t of) {
  std::vector<Point> found;
  for (size_t begin = 0; begin < points.size(); begin += of) {
    Point sum{0, 0};
    double count = 0;
    for (size_t i = begin; i < std::min(begin + of, points.size()); ++i) {
      if (!finite(points[i])) continue;
      sum.first += points[i].first, sum.second += points[i].second, count += 1;
    }
    if (count > 0) found.emplace_back(sum.first / count, sum.second / count);
  }
  return found;
}

namespace {

/// Where an SVG chart draws; in units of which a digit is kDigit wide.
struct Canvas {
  static constexpr double kWidth = 400, kHeight = 244, kRight = 12, kTop = 10, kBottom = 40, kDigit = 7;
  const Frame& frame;
  double left = 0;
  double x_of(double x) const { return left + (kWidth - left - kRight) * frame.x.share(x); }
  double y_of(double y) const { return kHeight - kBottom - (kHeight - kTop - kBottom) * frame.y.share(y); }
};

std::string svg_axes(Canvas& canvas, const std::string& x_title) {
  const std::vector<double> ys = ticks(canvas.frame.y.low, canvas.frame.y.high, 5);
  size_t longest = 0;
  for (const double y : ys) longest = std::max(longest, tick_text(y).size());
  canvas.left = Canvas::kDigit * static_cast<double>(longest) + 10;
  const double right = Canvas::kWidth - Canvas::kRight, below = Canvas::kHeight - Canvas::kBottom + 17;
  std::string svg;
  for (const double y : ys)
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        canvas.left, right, canvas.y_of(y), canvas.y_of(y), canvas.left - 6, canvas.y_of(y) + 4,
        tick_text(y));
  for (const double x : ticks(canvas.frame.x.low, canvas.frame.x.high, 5)) {
    const std::string text = tick_text(x);
    const double half = Canvas::kDigit / 2 * static_cast<double>(text.size());
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                       std::clamp(canvas.x_of(x), half, Canvas::kWidth - half), below, text);
  }
  return svg + fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                           (canvas.left + right) / 2, below + 17, escaped(x_title));
}

/// A path through the points; dots: also a dot for each, where they are few.
std::string svg_line(const Canvas& canvas, const std::vector<Point>& all, const char* style, bool dots) {
  constexpr size_t kDots = 40;
  const std::vector<Point> points = thinned(all, kPoints);
  std::string path, marks;
  bool begun = false;
  for (const Point& p : points) {
    if (!finite(p)) {
      begun = false;
      continue;
    }
    path += fmt::format("{}{:.1f} {:.1f}", begun ? "L" : "M", canvas.x_of(p.first), canvas.y_of(p.second));
    begun = true;
    if (dots && points.size() <= kDots)
      marks += fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>",
                           canvas.x_of(p.first), canvas.y_of(p.second));
  }
  return fmt::format("<path class=\"{}\" d=\"{}\"/>{}", style, path, marks);
}

/// The names of curves, where there is more than one to tell apart.
std::string svg_legend(const LineChart& chart) {
  std::string names;
  int shown = 0;
  for (size_t k = 0; k < chart.curves.size(); ++k) {
    const Curve& curve = chart.curves[k];
    if (!std::any_of(curve.points.begin(), curve.points.end(), finite)) continue;
    shown += curve.behind.empty() ? 1 : 2;
    names += fmt::format(" <span class=\"k{}\">&#9632; {}</span>", k % kColours, escaped(curve.name));
  }
  return shown > 1 ? names : "";
}

}  // namespace

std::string svg_chart(const LineChart& chart) {
  const Frame frame(chart);
  if (frame.empty()) return "";
  Canvas canvas{frame};
  std::string html = fmt::format(
      "<figure><figcaption>{}{}</figcaption>\n<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n",
      escaped(chart.title), svg_legend(chart), Canvas::kWidth, Canvas::kHeight, escaped(chart.title));
  html += svg_axes(canvas, chart.x_title);
  for (size_t k = 0; k < chart.curves.size(); ++k) {
    const Curve& curve = chart.curves[k];
    if (curve.points.empty()) continue;
    html += fmt::format("<g class=\"k{}\">", k % kColours);
    if (!curve.behind.empty()) html += svg_line(canvas, curve.behind, "curve faint", false);
    html += svg_line(canvas, curve.points, "curve", curve.behind.empty()) + "</g>\n";
  }
  return html + "</svg></figure>\n";
}

std::string terminal_chart(const LineChart& chart, int width, int height, bool unicode) {
  constexpr std::array<const char*, 6> kMarks = {"●", "○", "▲", "△", "■", "□"},
                                       kAscii = {"*", "o", "+", "x", "#", "@"};
  const auto mark = [&](size_t k) { return (unicode ? kMarks : kAscii)[k % kMarks.size()]; };
  const Frame frame(chart);
  if (frame.empty()) return "";
  height = std::clamp(height, 3, 100);
  std::vector<std::string> labels(static_cast<size_t>(height));
  const auto row_of = [&](double y) {
    return static_cast<size_t>(std::lround((1 - frame.y.share(y)) * (height - 1)));
  };
  size_t label_width = 0;
  for (const double y : ticks(frame.y.low, frame.y.high, height / 3)) {
    labels[row_of(y)] = tick_text(y);
    label_width = std::max(label_width, labels[row_of(y)].size());
  }
  const int columns = std::clamp(width - static_cast<int>(label_width) - 5, 8, 400);
  const auto column_of = [&](double x) {
    return static_cast<size_t>(std::lround(frame.x.share(x) * (columns - 1)));
  };
  std::vector<std::vector<const char*>> cells(static_cast<size_t>(height),
                                              std::vector<const char*>(static_cast<size_t>(columns), " "));
  for (size_t k = 0; k < chart.curves.size(); ++k)
    for (const Point& p : chart.curves[k].points)
      if (finite(p)) cells[row_of(p.second)][column_of(p.first)] = mark(k);
  std::string text = "  " + chart.title + "\n";
  for (size_t k = 0; k < chart.curves.size(); ++k)
    text += fmt::format("  {} {}\n", mark(k), chart.curves[k].name);
  for (size_t row = 0; row < cells.size(); ++row) {
    std::string line;
    for (const char* cell : cells[row]) line += cell;
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("  {:>{}} {}{}\n", labels[row], label_width, unicode ? "│" : "|", line);
  }
  std::string axis(static_cast<size_t>(columns) + 12, ' ');
  size_t end = 0;
  for (const double x : ticks(frame.x.low, frame.x.high, std::max(2, columns / 16))) {
    const std::string label = tick_text(x);
    const size_t middle = column_of(x), at = middle > label.size() / 2 ? middle - label.size() / 2 : 0;
    if (at < end) continue;
    axis.replace(at, label.size(), label);
    end = at + label.size() + 1;
  }
  axis.erase(axis.find_last_not_of(' ') + 1);
  return text + fmt::format("  {:>{}}  {}  ({})\n", "", label_width, axis, chart.x_title);
}

}  // namespace lathe
