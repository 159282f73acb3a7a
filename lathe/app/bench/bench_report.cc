#include "lathe/app/bench/bench_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "lathe/app/terminal/progress_bar.h"
#include "lathe/core/strtod_c.h"
#include "lathe/text/python_format.h"
#include "lathe/text/unicode.h"
#include "lathe/text/visible_text.h"

namespace lathe {
namespace {

std::string padded(const std::string& text, size_t width, bool right) {
  const std::string blanks(width - std::min(width, unicode::length(text)), ' ');
  return right ? blanks + text : text + blanks;
}

std::string without_trailing_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

/// Texts to the left, numbers to the right.
bool is_number_column(const BenchReport& report, const BenchColumn& column) {
  return std::none_of(report.rows.begin(), report.rows.end(), [&](const nlohmann::ordered_json& row) {
    return row.contains(column.key) && row[column.key].is_string();
  });
}

std::string table_text(const BenchReport& report) {
  std::vector<std::string> lines(report.rows.size() + 1);
  for (const BenchColumn& column : report.columns) {
    const bool right = is_number_column(report, column);
    const std::string title = visible_line(column.title);
    size_t width = unicode::length(title);
    const auto cell = [&](const auto& row) { return visible_line(cell_text(row, column)); };
    for (const auto& row : report.rows) width = std::max(width, unicode::length(cell(row)));
    const auto add = [&](std::string& line, const std::string& text) {
      line += "  " + padded(text, width, right);
    };
    add(lines[0], title);
    for (size_t i = 0; i < report.rows.size(); ++i) add(lines[i + 1], cell(report.rows[i]));
  }
  std::string text;
  for (std::string& line : lines) text += without_trailing_blanks(std::move(line));
  return text;
}

std::string chart_text(const BenchReport& report, int width, bool unicode) {
  size_t label_width = 0, value_width = 0;
  double longest = 0;
  for (const auto& row : report.rows) {
    label_width = std::max(label_width, unicode::length(bar_label(row, report.chart)));
    value_width = std::max(value_width, unicode::length(cell_text(row, report.chart.value)));
    longest = std::max(longest, bar_value(row, report.chart));
  }
  if (longest <= 0) return "";
  const int cells = std::max(8, width - static_cast<int>(label_width + value_width) - 7);
  std::string text = "\n  " + report.chart.title + "\n";
  for (const auto& row : report.rows)
    text += without_trailing_blanks(
        fmt::format("  {}  {}  {}", padded(bar_label(row, report.chart), label_width, false),
                    padded(cell_text(row, report.chart.value), value_width, true),
                    drawn_bar(bar_value(row, report.chart) / longest, cells, unicode)));
  return text;
}

}  // namespace

double six_digits(double x) { return strtod_c(fmt::format("{:.6g}", x).c_str()); }

std::string cell_text(const nlohmann::ordered_json& row, const BenchColumn& column) {
  const auto it = row.find(column.key);
  if (it == row.end() || it->is_null()) return "-";
  if (it->is_string()) return it->get<std::string>();
  if (it->is_boolean()) return it->get<bool>() ? "yes" : "no";
  return fmt::format("{:.{}f}", it->get<double>() * column.scale, column.digits);
}

std::string bar_label(const nlohmann::ordered_json& row, const BenchChart& chart) {
  std::string label;
  for (const std::string& key : chart.labels)
    label += (label.empty() ? "" : " ") + cell_text(row, {key, "", 0, 1});
  return label;
}

double bar_value(const nlohmann::ordered_json& row, const BenchChart& chart) {
  const auto it = row.find(chart.value.key);
  return it == row.end() || !it->is_number() ? 0 : it->get<double>() * chart.value.scale;
}

void note_more_than_peak(BenchReport& report) {
  constexpr double kPercent = 103;
  const bool more = std::ranges::any_of(report.rows, [](const nlohmann::ordered_json& row) {
    const auto percent = row.find("percent_of_peak");
    return percent != row.end() && percent->is_number() && percent->get<double>() > kPercent;
  });
  if (more)
    report.notes.emplace_back(
        "more than the peak: something held the cores up while that was measured; measure again");
}

std::string json_lines(const BenchReport& report) {
  std::string text;
  for (const auto& row : report.rows) text += python_json(row, -1) + "\n";
  return text;
}

std::string terminal_text(const BenchReport& report, int width, bool unicode) {
  std::string text = report.title + "\n";
  for (const std::string& note : report.notes) text += "  " + note + "\n";
  text += "\n" + table_text(report);
  if (!report.chart.labels.empty()) text += chart_text(report, width, unicode);
  return text + "\n";
}

}  // namespace lathe
