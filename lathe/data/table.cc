#include "lathe/data/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "lathe/core/error.h"
#include "lathe/data/table_parsers.h"
#include "lathe/io/foreign_content.h"
#include "lathe/io/gzip.h"
#include "lathe/text/text.h"

namespace lathe {
namespace table_detail {

void check_column_names(const Table& table) {
  std::unordered_map<std::string_view, size_t> numbers;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const auto [first, is_new] = numbers.try_emplace(table.columns[i].name, i + 1);
    if (!is_new)
      fail(ErrorCode::kInvalidData,
           "{}: columns {} and {} are both named '{}'; expected distinct names: rename one in the header",
           table.origin, first->second, i + 1, table.columns[i].name);
  }
}

void fail_without_rows(const std::string& origin, TableFormat format) {
  if (format == TableFormat::kJson || format == TableFormat::kJsonLines)
    fail(ErrorCode::kInvalidData, "{}: no rows with columns; expected objects {{\"column\": value, …}}",
         origin);
  fail(ErrorCode::kInvalidData, "{}: a header, but no row; expected at least one", origin);
}

void parse_piece(Piece& piece, TableFormat format, const TableOptions& options, Table& table) {
  switch (format) {
    case TableFormat::kTsv:
      return parse_tsv(piece, options, table);
    case TableFormat::kCsv:
      return parse_csv(piece, options, table);
    case TableFormat::kTrec:
      return parse_trec(piece, table);
    case TableFormat::kLines:
      return parse_lines(piece, table);
    case TableFormat::kJson:
      return parse_json(piece, options, table);
    case TableFormat::kJsonLines:
      return parse_json_lines(piece, options, table);
  }
}

}  // namespace table_detail

namespace {

void append_rows(Table& all, Table& part) {
  std::unordered_map<std::string_view, const Column*> columns;
  for (const Column& column : part.columns) columns.emplace(column.name, &column);
  for (Column& column : all.columns) {
    const auto found = columns.find(column.name);
    const Column* more = found == columns.end() ? nullptr : found->second;
    if (more == nullptr || part.columns.size() != all.columns.size())
      fail(ErrorCode::kInvalidData, "{}: its columns are not those of {}; expected the same in every file",
           part.origin, all.origin);
    column.values.insert(column.values.end(), more->values.begin(), more->values.end());
    column.type = table_detail::joined_type(column.type, more->type);
    column.absent.add(more->absent, all.rows());
    column.empty.add(more->empty, all.rows());
    column.nested.add(more->nested, all.rows());
    column.class_label |= more->class_label;
  }
  all.later_files.emplace_back(all.rows(), part.origin);
  all.lines.insert(all.lines.end(), part.lines.begin(), part.lines.end());
}

Table parquet_table(const std::string& path, std::string_view rows) {
  Table table = parse_table(rows, TableFormat::kJsonLines, {}, path);
  const std::set<std::string> class_labels = parquet_class_labels(path);
  for (Column& column : table.columns) column.class_label = class_labels.contains(column.name);
  return table;
}

}  // namespace

bool may_be_used(std::string_view name, bool nested) { return !nested || name == "label"; }

void Gaps::add(const Gaps& more, size_t rows_before) {
  if (more.count == 0) return;
  const size_t row = rows_before + more.first;
  first = count == 0 ? row : std::min(first, row);
  count += more.count;
}

const Column* Table::find(std::string_view name) const {
  for (const Column& column : columns)
    if (column.name == name) return &column;
  return nullptr;
}

const Column& Table::at(std::string_view name) const {
  if (const Column* column = find(name)) return *column;
  fail(ErrorCode::kNotFound, "{}: no column '{}'; it has {}: rename one in the header", origin, name,
       names_text());
}

std::string Table::names_text() const {
  std::string text;
  for (const Column& column : columns) text += (text.empty() ? "'" : ", '") + column.name + "'";
  return text;
}

std::string Table::place(size_t row) const {
  const auto file = std::find_if(later_files.rbegin(), later_files.rend(),
                                 [&](const auto& later) { return later.first <= row; });
  return fmt::format("{}:{}", file == later_files.rend() ? origin : file->second, lines[row]);
}

std::optional<TableFormat> table_format_of(std::string_view path) {
  if (path.ends_with(".gz")) path.remove_suffix(3);
  const auto dot = path.rfind('.');
  const std::string extension = dot == std::string_view::npos ? "" : to_lower(path.substr(dot + 1));
  if (extension == "tsv") return TableFormat::kTsv;
  if (extension == "csv") return TableFormat::kCsv;
  if (extension == "json") return TableFormat::kJson;
  if (extension == "jsonl" || extension == "ndjson") return TableFormat::kJsonLines;
  if (extension == "label" || extension == "txt") return TableFormat::kTrec;
  return std::nullopt;
}

Table parse_table(std::string_view bytes, TableFormat format, const TableOptions& options,
                  const std::string& origin) {
  Table table;
  table.origin = origin;
  if (bytes.starts_with("\xEF\xBB\xBF")) bytes.remove_prefix(3);
  refuse_foreign_content(bytes, origin, "a table with at least one row");
  check_utf8(bytes, origin);
  table_detail::Piece piece{bytes};
  table_detail::parse_piece(piece, format, options, table);
  table_detail::check_column_names(table);
  if (table.rows() == 0 || table.columns.empty()) table_detail::fail_without_rows(origin, format);
  return table;
}

Table read_table(const std::string& path, const TableOptions& options, const ParquetColumnWanted& wanted) {
  if (is_parquet(path)) return parquet_table(path, parquet_rows(path, wanted));
  const auto format = table_format_of(path);
  if (!format)
    fail(ErrorCode::kUsage,
         "{}: unknown kind of file; expected .tsv, .csv, .json, .jsonl or .label (TREC), each also with .gz, "
         "or "
         ".parquet",
         path);
  return parse_table(read_text(real_file_system(), path, kDataFileBytes), *format, options, path);
}

Table read_tables(const std::vector<std::string>& paths, const ParquetColumnWanted& wanted) {
  Table all;
  const auto add = [&](Table part) {
    if (all.columns.empty())
      all = std::move(part);
    else
      append_rows(all, part);
  };
  for (const std::string& path : paths) {
    if (!is_parquet(path)) {
      add(read_table(path));
      continue;
    }
    std::string rows = parquet_rows(path, wanted);
    if (rows.empty()) continue;  // more shards than rows leave some empty
    Table part = parquet_table(path, rows);
    rows = {};
    add(std::move(part));
  }
  if (all.columns.empty()) return read_table(paths.front());  // says that it has no rows
  return all;
}

std::vector<std::string> read_lines(const std::string& path) {
  std::string text = read_text(real_file_system(), path, kDataFileBytes);
  check_utf8(text, path);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  if (text.empty())
    fail(ErrorCode::kInvalidData, "{}: the file is empty, expected a text in each line", path);
  Table table;
  table_detail::Piece piece{text};
  table_detail::parse_lines(piece, table);
  return std::move(table.columns[0].values);
}

}  // namespace lathe
