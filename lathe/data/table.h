#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/data/parquet.h"

namespace lathe {

/// How a text table is written.
///   kTsv       fields between tabs, never quoted (GLUE's files); BOM and CRLF tolerated
///   kCsv       RFC 4180: commas, "…" with "" for a quote, line ends inside quotes; blank lines do not count
///   kJson      an array of objects, {"data": [objects]}, or JSON Lines (told apart by the content)
///   kJsonLines an object a line
///   kTrec      lines `COARSE:fine text`, columns "text" and "label" (the coarse class)
///   kLines     a text a line, also an empty one; the column is "text"
enum class TableFormat { kTsv, kCsv, kJson, kJsonLines, kTrec, kLines };

/// What all values of a column are.  kNull: all empty or absent; kInteger and kFloat: numbers, or text of CSV
/// and TSV that reads as numbers, with blanks around them or not; kList: JSON arrays of strings or numbers;
/// kOther: other nested JSON.
enum class ColumnType { kNull, kInteger, kFloat, kString, kList, kOther };

/// Cells that have no value, or none that is text: how many, and the row of the first.
struct Gaps {
  size_t count = 0, first = 0;

  /// Counts those of rows that come after `rows_before` others, too.
  void add(const Gaps& more, size_t rows_before = 0);
};

struct Column {
  std::string name;
  std::vector<std::string> values;  ///< text form as in the file; of a list its JSON; "" if absent
  ColumnType type = ColumnType::kNull;
  Gaps absent = {};          ///< of JSON and Parquet: null, or no such key
  Gaps empty = {};           ///< of TSV and CSV: nothing between the separators
  Gaps nested = {};          ///< of JSON and Parquet: lists, objects and bytes that are no UTF-8
  bool class_label = false;  ///< of Parquet: a ClassLabel of the datasets library, whose -1 is no class
  size_t first_row = 0;      ///< of JSON: the first one that has this key
  /// TableOptions::keep_numbers, of JSON: numbers with their digits, by row; "" where `values` has the text.
  std::vector<std::string> written = {};

  /// What a table that is written has in this row; models read `values`.
  const std::string& as_written(size_t row) const {
    return row < written.size() && !written[row].empty() ? written[row] : values[row];
  }
};

/// A column-oriented table of text, with what messages need to name a place.
struct Table {
  std::string origin;           ///< file name, of several the first one's
  std::vector<Column> columns;  ///< all with rows() values
  std::vector<uint32_t> lines;  ///< [rows] line of its file on which a row begins, from 1
  std::vector<std::pair<size_t, std::string>> later_files;  ///< first row and name of each but the first
  int64_t skipped_rows = 0;               ///< ragged rows left out (TableOptions::skip_ragged)
  std::vector<std::string> objects = {};  ///< TableOptions::keep_objects, of JSON: [rows], each on a line

  size_t rows() const { return lines.size(); }
  /// Null if there is no such column.
  const Column* find(std::string_view name) const;
  /// Errors: kNotFound, listing the columns there are.
  const Column& at(std::string_view name) const;
  /// "'a', 'b'": all columns, for messages.
  std::string names_text() const;
  /// "file:line" of a row.
  std::string place(size_t row) const;
};

struct TableOptions {
  /// Names of the columns of a TSV or CSV file without a header line; empty: the first line is the header.
  std::vector<std::string> column_names;
  /// Leaves out TSV rows with another number of fields than the header instead of failing.
  bool skip_ragged = false;
  /// Keeps the text of each row of JSON and, of values of kOther, their JSON.
  bool keep_objects = false;
  /// Keeps numbers of JSON also as they stand in the file, with all their digits: "1.50", and integers beyond
  /// 64 bits (Column::written).  In Column::values one that is no integer of 64 bits is always as Python
  /// writes the double: "1.5".
  bool keep_numbers = false;
};

/// Whether a column of Parquet may hold texts or labels.
bool may_be_used(std::string_view name, bool nested);

/// Reads a whole file; ".gz" after the extension is unpacked.  Format by extension: .tsv, .csv, .json, .jsonl
/// (.ndjson), .label or .txt (TREC), .parquet (parquet.h).
/// Errors: kUsage for another extension; kNotFound or kIo from the file system; kInvalidData, naming file,
/// line, column, what was found and what is wanted, for invalid UTF-8, an empty file, a duplicate or missing
/// column name, a ragged row, an open quote, malformed JSON or TREC lines; more than
/// 1000 different keys of JSON objects.  wanted: the columns of Parquet whose values are read; those of the
/// others are kOther.
Table read_table(const std::string& path, const TableOptions& options = {},
                 const ParquetColumnWanted& wanted = may_be_used);

/// The rows of several files, one after the other.  Errors: as read_table, but Parquet without rows is left
/// out if other files have some; kInvalidData if their columns differ.
Table read_tables(const std::vector<std::string>& paths, const ParquetColumnWanted& wanted = may_be_used);

/// The same from memory.  `origin` is for messages.
Table parse_table(std::string_view bytes, TableFormat format, const TableOptions& options,
                  const std::string& origin);

/// The lines of a text file (also .gz) without their ends and without a byte order mark.  Errors: kNotFound,
/// kInvalidData.
std::vector<std::string> read_lines(const std::string& path);

/// The format of a file name, ".gz" ignored; nothing if the extension is unknown.
std::optional<TableFormat> table_format_of(std::string_view path);

/// Elements of a kList value: strings without quotes, numbers in their text form.  Errors: kInvalidData.
std::vector<std::string> list_elements(const std::string& value);

}  // namespace lathe
