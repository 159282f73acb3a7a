#include "lathe/report/line_chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lathe {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(),
                 kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kMost = std::numeric_limits<double>::max(), kLeast = 5e-324;

TEST(LineChart, TicksAreRoundAndWithinTheRange) {
  EXPECT_EQ(ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(ticks(-3, 4, 3), (std::vector<double>{0}));
  EXPECT_EQ(ticks(0.31, 0.69, 2), (std::vector<double>{0.4, 3 * 0.2}));
}

TEST(LineChart, TicksOfOddRangesEnd) {
  const std::vector<std::pair<double, double>> ranges = {{0, 0},           {5, 5},
                                                         {-kMost, kMost},  {kMost, kMost},
                                                         {1e16, 1e16 + 2}, {kLeast, 2 * kLeast},
                                                         {-kInf, 0},       {0, kInf},
                                                         {kNan, 1},        {1e300, 1.0000001e300},
                                                         {3, 1},           {-1e-320, 1e-320},
                                                         {1 - 1e-16, 1}};
  for (const auto& [low, high] : ranges)
    for (const int wanted : {-1, 0, 1, 5, 1 << 30}) {
      const std::vector<double> found = ticks(low, high, wanted);
      ASSERT_GE(found.size(), 1u) << low << " " << high << " " << wanted;
      EXPECT_LE(found.size(), 102u);
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_TRUE(std::isfinite(found[i])) << low << " " << high;
        if (i > 0) {
          EXPECT_GT(found[i], found[i - 1]);
        }
      }
    }
}

TEST(LineChart, ThinningKeepsEndsAndExtremes) {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 100'000; ++i) points.emplace_back(i, std::sin(i * 0.001));
  points[777].second = 50;
  points[5000].second = -50;
  points[6000].second = kNan;
  const auto few = thinned(points, 500);
  EXPECT_LE(few.size(), 500u);
  EXPECT_GT(few.size(), 400u);
  EXPECT_EQ(few.front(), points.front());
  EXPECT_EQ(few.back(), points.back());
  double least = 0, greatest = 0, last = -1;
  for (const auto& [x, y] : few) {
    EXPECT_GT(x, last);
    last = x;
    least = std::min(least, y), greatest = std::max(greatest, y);
  }
  EXPECT_EQ(least, -50);
  EXPECT_EQ(greatest, 50);
  EXPECT_EQ(thinned(few, 500), few);
}

TEST(LineChart, OddValuesGiveAChartOrNone) {
  EXPECT_EQ(svg_chart({"empty", "step", {}}), "");
  EXPECT_EQ(svg_chart({"nan", "step", {{"a", {{1, kNan}, {2, kInf}, {kNan, 1}}}}}), "");
  EXPECT_EQ(terminal_chart({"nan", "step", {{"a", {{1, kNan}}}}}, 80, 10, true), "");
  const std::vector<std::vector<std::pair<double, double>>> odd = {{{1, 1}},
                                                                   {{1, 2}, {2, 2}},
                                                                   {{1, -kMost}, {2, kMost}},
                                                                   {{1, kMost}, {2, kMost}},
                                                                   {{1, kLeast}},
                                                                   {{1, 0}, {2, kNan}, {3, 1}},
                                                                   {{-kMost, 0}, {kMost, 1}},
                                                                   {{1e18, 1}, {1e18 + 256, 2}},
                                                                   {{0, 0}, {0, 0}}};
  for (const auto& points : odd) {
    const LineChart chart{"<t>", "step", {{"a", points}, {"b", {}}}};
    const std::string svg = svg_chart(chart);
    EXPECT_NE(svg.find("&lt;t&gt;"), std::string::npos);
    for (const char* bad : {"nan", "inf", "-0.0\""}) EXPECT_EQ(svg.find(bad), std::string::npos) << svg;
    EXPECT_NE(terminal_chart(chart, 60, 8, false).find('*'), std::string::npos);
    for (const int width : {-5, 0, 10, 100'000})
      EXPECT_LT(terminal_chart(chart, width, 1 << 30, true).size(), 1u << 20);
  }
}

/// Every text of the SVG within its box, a digit of 12 px being 7 units wide.
TEST(LineChart, LabelsOfAxesLieWithinTheChart) {
  for (const auto& [x, y] :
       std::vector<std::pair<double, double>>{{1e9, 1.5e-5}, {3, 0.00015}, {12345678, -1e-300}}) {
    const std::string svg = svg_chart({"t", "step", {{"a", {{0, 0}, {x, y}}}}});
    size_t texts = 0;
    for (size_t at = svg.find("<text "); at != std::string::npos; at = svg.find("<text ", at + 1)) {
      const double place = std::stod(svg.substr(svg.find("x=\"", at) + 3));
      const size_t begin = svg.find('>', at) + 1;
      const double width = 7.0 * static_cast<double>(svg.find('<', begin) - begin);
      const bool ends = svg.substr(at, begin - at).find("\"end\"") != std::string::npos;
      EXPECT_GE(place - (ends ? width : width / 2), 0) << svg.substr(at, 100);
      EXPECT_LE(place + (ends ? 0 : width / 2), 400) << svg.substr(at, 100);
      ++texts;
    }
    EXPECT_GE(texts, 5u);
  }
}

TEST(LineChart, MeansOfEqualStretches) {
  using Points = std::vector<std::pair<double, double>>;
  const Points points = {{1, 2}, {2, 4}, {3, kNan}, {4, 8}, {5, 1}, {6, kInf}, {7, kNan}};
  EXPECT_EQ(means(points, 2), (Points{{1.5, 3}, {4, 8}, {5, 1}}));
  EXPECT_EQ(means({}, 3), Points{});
}

TEST(LineChart, WhatMeansAreOfStandsFaintlyBehindThem) {
  const Curve curve{"a", {{1.5, 1}}, {{1, 0}, {2, 2}}};
  const std::string svg = svg_chart({"t", "step", {curve, {"nothing", {}}}});
  EXPECT_LT(svg.find("curve faint"), svg.find("class=\"curve\""));
  EXPECT_NE(svg.find("&#9632; a<"), std::string::npos);
  EXPECT_EQ(svg.find("nothing"), std::string::npos);  // a curve that is not there needs no name
  EXPECT_EQ(svg_chart({"t", "step", {{"a", {{1, 1}, {2, 2}}}}}).find("&#9632;"), std::string::npos);
}

TEST(LineChart, AGapBreaksTheLine) {
  const std::string svg = svg_chart({"t", "step", {{"a", {{0, 0}, {1, 1}, {2, kNan}, {3, 1}, {4, 0}}}}});
  const size_t at = svg.find(" d=\"");
  const std::string path = svg.substr(at, svg.find('"', at + 4) - at);
  EXPECT_EQ(std::count(path.begin(), path.end(), 'M'), 2);
  EXPECT_EQ(std::count(path.begin(), path.end(), 'L'), 2);
}

TEST(LineChart, TheTerminalShowsEachCurveWhereItIs) {
  const std::string text = terminal_chart(
      {"loss", "step", {{"up", {{0, 0}, {10, 10}}}, {"down", {{0, 10}, {10, 0}}}}}, 24, 5, false);
  EXPECT_EQ(text,
            "  loss\n  * up\n  o down\n"
            "  10 |o               *\n"
            "     |\n"
            "     |\n"
            "     |\n"
            "   0 |*               o\n"
            "      0       5      10  (step)\n");
}

TEST(LineChart, TickTextIsShort) {
  EXPECT_EQ(tick_text(0), "0");
  EXPECT_EQ(tick_text(-0.0), "0");
  EXPECT_EQ(tick_text(0.0001), "0.0001");
  EXPECT_EQ(tick_text(2e-5), "2e-05");
  EXPECT_EQ(tick_text(12500), "12.5k");
  EXPECT_EQ(tick_text(-3e7), "-30M");
}

}  // namespace
}  // namespace lathe
