// The page of lathe bench --html: no scripts, nothing fetched; charts are SVG.
#include <fmt/format.h>

#include <algorithm>

#include "lathe/app/bench/bench_report.h"
#include "lathe/report/html.h"

namespace lathe {
namespace {

std::string table(const BenchReport& report) {
  HtmlTable table;
  table.rows.resize(report.rows.size());
  for (const BenchColumn& column : report.columns) {
    table.titles.push_back(column.title);
    table.words.push_back(std::any_of(report.rows.begin(), report.rows.end(), [&](const auto& row) {
      return row.contains(column.key) && row[column.key].is_string();
    }));
    for (size_t i = 0; i < report.rows.size(); ++i)
      table.rows[i].push_back(cell_text(report.rows[i], column));
  }
  return html_table(table);
}

/// Bars from left to right in a box 900 units wide: label, bar, value.
std::string chart(const BenchReport& report) {
  constexpr double kLabel = 310, kBars = 490, kRow = 26, kTop = 8;
  double longest = 0;
  for (const auto& row : report.rows) longest = std::max(longest, bar_value(row, report.chart));
  if (report.chart.labels.empty() || longest <= 0) return "";
  std::string html = fmt::format(
      "<p>{}</p>\n<svg viewBox=\"0 0 900 {}\" role=\"img\" aria-label=\"{}\">\n", escaped(report.chart.title),
      kRow * static_cast<double>(report.rows.size()) + 2 * kTop, escaped(report.chart.title));
  double y = kTop;
  for (const auto& row : report.rows) {
    const double length = kBars * bar_value(row, report.chart) / longest;
    html += fmt::format(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>"
        "<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" rx=\"2\"/>"
        "<text x=\"{:.1f}\" y=\"{}\">{}</text>\n",
        kLabel - 8, y + 17, escaped(bar_label(row, report.chart)), kLabel, y + 3, length, kRow - 6,
        kLabel + length + 8, y + 17, escaped(cell_text(row, report.chart.value)));
    y += kRow;
  }
  return html + "</svg>\n";
}

}  // namespace

std::string html_page(const std::vector<BenchReport>& reports, std::string_view machine) {
  std::string html;
  for (const BenchReport& report : reports) {
    html += fmt::format("<h2>{}</h2>\n", escaped(report.title));
    for (const std::string& note : report.notes) html += fmt::format("<p>{}</p>\n", escaped(note));
    html += table(report) + chart(report);
  }
  return html_document("lathe bench", machine, html);
}

}  // namespace lathe
