// The page of lathe bench --html: no scripts, nothing fetched; charts are SVG.
#include <fmt/format.h>

#include <algorithm>

#include "lathe/app/bench_report.h"

namespace lathe {
namespace {

constexpr const char* kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;"
    "background:#fff;color:#1d2733}"
    "h1{font-size:1.6rem;margin-bottom:0}h2{font-size:1.15rem;margin-top:2.5rem}"
    "p{margin:.2rem 0;color:#5a6775}.scroll{overflow-x:auto}"
    "table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}"
    "th,td{padding:.25rem .75rem;border-bottom:1px solid #dde3e9;text-align:right;white-space:nowrap}"
    "th{font-weight:600}td.text,th.text{text-align:left}"
    "svg{width:100%;height:auto}svg text{font:13px system-ui,sans-serif;fill:currentColor}"
    "svg rect{fill:#2f7fd1}"
    "@media(prefers-color-scheme:dark){body{background:#12171d;color:#dbe3ea}p{color:#93a1ae}"
    "th,td{border-color:#2a333d}svg rect{fill:#58a6ff}}";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string table(const BenchReport& report) {
  const auto cell = [&](const char* tag, const BenchColumn& column, const std::string& text) {
    const bool words = std::any_of(report.rows.begin(), report.rows.end(), [&](const auto& row) {
      return row.contains(column.key) && row[column.key].is_string();
    });
    return fmt::format("<{}{}>{}</{}>", tag, words ? " class=\"text\"" : "", escaped(text), tag);
  };
  std::string html = "<div class=\"scroll\"><table>\n<tr>";
  for (const BenchColumn& column : report.columns) html += cell("th", column, column.title);
  html += "</tr>\n";
  for (const auto& row : report.rows) {
    html += "<tr>";
    for (const BenchColumn& column : report.columns) html += cell("td", column, cell_text(row, column));
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
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
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>lathe bench</title>\n<style>{}</style>\n</head>\n<body>\n<h1>lathe bench</h1>\n<p>{}</p>\n",
      kStyle, escaped(machine));
  for (const BenchReport& report : reports) {
    html += fmt::format("<h2>{}</h2>\n", escaped(report.title));
    for (const std::string& note : report.notes) html += fmt::format("<p>{}</p>\n", escaped(note));
    html += table(report) + chart(report);
  }
  return html + "</body>\n</html>\n";
}

}  // namespace lathe
