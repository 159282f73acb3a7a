#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

/// How a key of a row is displayed: value · scale, with this number of digits after the point.
struct BenchColumn {
  std::string key, title;
  int digits = 0;
  double scale = 1;
};

/// A bar per row: its label, the values of some keys, and its length.
struct BenchChart {
  std::string title;
  std::vector<std::string> labels;  ///< keys
  BenchColumn value;
};

/// The results of a bench.  A row is a flat object, exactly the JSON line of --json; a value that could not
/// be measured is null.
struct BenchReport {
  std::string title;
  std::vector<std::string> notes;
  std::vector<BenchColumn> columns;
  std::vector<nlohmann::ordered_json> rows;
  BenchChart chart;  ///< no labels: none
};

/// x with six significant digits, as JSON lines hold it.
double six_digits(double x);

/// Adds a note if `percent_of_peak` is above 103: the peak is measured first, and some hosts of virtual
/// machines give less of their cores for a while.
void note_more_than_peak(BenchReport& report);

/// One object per line.
std::string json_lines(const BenchReport& report);

/// Title, notes, table and chart for a terminal of `width` columns.  unicode: block characters, else '#'.
std::string terminal_text(const BenchReport& report, int width, bool unicode);

/// A page without external files: tables and charts of all reports.  `machine` is printed below the title.
std::string html_page(const std::vector<BenchReport>& reports, std::string_view machine);

/// The value of a cell as text; "-" for null or a missing key.
std::string cell_text(const nlohmann::ordered_json& row, const BenchColumn& column);
/// The label of a row's bar.
std::string bar_label(const nlohmann::ordered_json& row, const BenchChart& chart);
/// The length of a row's bar; 0 for null.
double bar_value(const nlohmann::ordered_json& row, const BenchChart& chart);

}  // namespace lathe
