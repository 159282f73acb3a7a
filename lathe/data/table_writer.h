#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/data/table.h"

namespace lathe {

/// How a table is written.  kCsv, kTsv and kJsonLines are what TableFormat has by these names: read again,
/// every cell is the same, byte by byte.  Of JSON a cell of kCsv and kTsv has the text of a string, a number
/// (TableOptions::keep_numbers), True or False, compact JSON of a list or object, or nothing for null.
enum class OutputFormat { kCsv, kTsv, kJsonLines, kParquet };

/// By the extension: .csv, .tsv, .jsonl (.ndjson), .parquet.
std::optional<OutputFormat> output_format_of(std::string_view path);

/// A value that is added to a row.
struct Cell {
  enum class Kind {
    kNone,
    kText,
    kNumber,  ///< NaN is null in JSON
    kTexts,   ///< joined by ", " in CSV and TSV
    kJson,    ///< `text` is JSON: a value of its own in JSON Lines, elsewhere that text
  };
  Kind kind = Kind::kNone;
  std::string text = {};
  float number = 0;
  std::vector<std::string> texts = {};

  static Cell of(std::string text) { return {.kind = Kind::kText, .text = std::move(text)}; }
  static Cell json(std::string text) { return {.kind = Kind::kJson, .text = std::move(text)}; }
  static Cell of(float number) { return {.kind = Kind::kNumber, .number = number}; }
  static Cell of(std::vector<std::string> texts) { return {.kind = Kind::kTexts, .texts = std::move(texts)}; }
};

/// The shortest decimal that reads back as this float; "nan".
std::string number_text(float number);

/// Names that no column of the table has: with "predicted_" before each where one is there already, then with
/// "predicted_2_", and so on.
std::vector<std::string> free_names(const Table& table, const std::vector<std::string>& names);

/// Errors: kInvalidData where a part has a column that is not among `names`, those of the first part.
void check_known_columns(const Table& part, const std::vector<std::string>& names);

/// Writes a table as text, part by part: all its columns, then the added ones.  With
/// TableOptions::keep_objects rows that come from JSON stay in .jsonl what they were, each on a line; else
/// every value is a string there.
class TableWriter {
 public:
  /// format: any but kParquet.  added: no column of the table has these names.
  TableWriter(OutputFormat format, std::vector<std::string> added, std::string line_end = "\n");

  /// Appends the part to `out`, before the first one the header.  cells: [rows], each of all added columns.
  /// Errors: kInvalidData, naming the place, for a tab or line end in a cell of a TSV file, and for columns
  /// that the first part did not have.
  void write(const Table& part, std::span<const std::vector<Cell>> cells, std::string& out);

 private:
  void write_object(const Table& part, size_t row, const std::vector<Cell>& cells, std::string& out) const;
  void write_fields(const Table& part, size_t row, const std::vector<Cell>& cells, std::string& out) const;
  void add_field(std::string_view text, const Table& part, size_t row, std::string_view column,
                 std::string& out) const;
  void begin(const Table& part, std::string& out);
  void find_columns(const Table& part);

  OutputFormat format_;
  std::vector<std::string> added_;
  std::string line_end_;
  std::vector<std::string> names_;      ///< of the first part's columns; kJsonLines: none
  std::vector<const Column*> columns_;  ///< of the part at hand, null where it lacks one
  bool begun_ = false;
};

}  // namespace lathe
