#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace lathe {

/// One line of a chart: (x, y) by rising x.  A point that is not finite is a gap.
struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points = {};
  std::vector<std::pair<double, double>> behind = {};  ///< shown faintly: what `points` are means of
};

struct LineChart {
  std::string title, x_title;
  std::vector<Curve> curves;
};

/// Round numbers within [low, high], rising, about `wanted` of them and at least one; finite whatever is
/// given, for low = high and for all numbers at once, too.
std::vector<double> ticks(double low, double high, int wanted);

/// At most `most` points (at least 4) that look the same: the first, the last, and the least and the greatest
/// of equal stretches between them.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points,
                                               size_t most);

/// Of every `of` points their means: of x, and of the finite y.
std::vector<std::pair<double, double>> means(const std::vector<std::pair<double, double>>& points, size_t of);

/// The chart as an HTML figure, 500 points per curve at most; empty where no point is finite.
std::string svg_chart(const LineChart& chart);

/// The chart for a terminal of `width` columns, `height` of its lines for the curves; empty where no point is
/// finite.  unicode: other marks than ASCII's.
std::string terminal_chart(const LineChart& chart, int width, int height, bool unicode);

/// 0.0001 → "1e-04", 12500 → "12.5k": at most five digits.
std::string tick_text(double value);

}  // namespace lathe
