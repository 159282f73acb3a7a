#include "lathe/data/table_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/text/python_format.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

std::string field_text(const Cell& cell) {
  if (cell.kind == Cell::Kind::kNumber) return number_text(cell.number);
  return cell.kind == Cell::Kind::kTexts ? fmt::format("{}", fmt::join(cell.texts, ", ")) : cell.text;
}

std::string json_string(std::string_view text) { return python_json_string(text, false); }

std::string json_text(const Cell& cell) {
  if (cell.kind == Cell::Kind::kText) return json_string(cell.text);
  if (cell.kind == Cell::Kind::kNumber) return std::isfinite(cell.number) ? number_text(cell.number) : "null";
  if (cell.kind == Cell::Kind::kNone) return "null";
  if (cell.kind == Cell::Kind::kJson) return cell.text;
  std::string list;
  for (const std::string& text : cell.texts) list += (list.empty() ? "" : ", ") + json_string(text);
  return "[" + list + "]";
}

}  // namespace

std::optional<OutputFormat> output_format_of(std::string_view path) {
  if (path.ends_with(".parquet")) return OutputFormat::kParquet;
  const auto format = table_format_of(path);
  if (!format || path.ends_with(".gz")) return std::nullopt;
  switch (*format) {
    case TableFormat::kCsv:
      return OutputFormat::kCsv;
    case TableFormat::kTsv:
      return OutputFormat::kTsv;
    case TableFormat::kJsonLines:
      return OutputFormat::kJsonLines;
    default:
      return std::nullopt;
  }
}

std::string number_text(float number) { return std::isnan(number) ? "nan" : fmt::format("{}", number); }

std::vector<std::string> free_names(const Table& table, const std::vector<std::string>& names) {
  std::vector<std::string> found = names;
  const auto is_there = [&](const std::string& name) { return table.find(name) != nullptr; };
  for (int times = 1; std::any_of(found.begin(), found.end(), is_there); ++times)
    std::transform(names.begin(), names.end(), found.begin(), [&](const std::string& name) {
      return times == 1 ? "predicted_" + name : fmt::format("predicted_{}_{}", times, name);
    });
  return found;
}

void check_known_columns(const Table& part, const std::vector<std::string>& names) {
  for (const Column& column : part.columns)
    if (std::find(names.begin(), names.end(), column.name) == names.end())
      fail(ErrorCode::kInvalidData,
           "{}: from {} on there is '{}', which the rows before did not have; a table of columns has its "
           "header by then: give --output FILE.jsonl",
           part.origin, part.place(column.first_row), column.name);
}

TableWriter::TableWriter(OutputFormat format, std::vector<std::string> added, std::string line_end)
    : format_(format), added_(std::move(added)), line_end_(std::move(line_end)) {}

void TableWriter::write(const Table& part, std::span<const std::vector<Cell>> cells, std::string& out) {
  for (const std::string& name : added_)
    if (const Column* column = part.find(name))
      fail(ErrorCode::kInvalidData,
           "{}: from {} on there is '{}', which is to be added and which the rows before did not have; "
           "expected the same keys in every row: rename it, or give every row one, null where it has none",
           part.origin, part.place(column->first_row), name);
  if (format_ != OutputFormat::kJsonLines) {
    if (!std::exchange(begun_, true)) begin(part, out);
    find_columns(part);
  }
  for (size_t row = 0; row < part.rows(); ++row) {
    if (format_ == OutputFormat::kJsonLines)
      write_object(part, row, cells[row], out);
    else
      write_fields(part, row, cells[row], out);
  }
}

void TableWriter::begin(const Table& part, std::string& out) {
  for (const Column& column : part.columns) {
    add_field(column.name, part, 0, column.name, out);
    names_.push_back(column.name);
  }
  for (const std::string& name : added_) add_field(name, part, 0, name, out);
  out.back() = line_end_.front();
  out.append(line_end_, 1);
}

/// Of JSON a row may lack keys, and bring new ones.
void TableWriter::find_columns(const Table& part) {
  check_known_columns(part, names_);
  columns_.clear();
  for (const std::string& name : names_) columns_.push_back(part.find(name));
}

void TableWriter::write_fields(const Table& part, size_t row, const std::vector<Cell>& cells,
                               std::string& out) const {
  for (size_t i = 0; i < names_.size(); ++i)
    add_field(columns_[i] == nullptr ? "" : columns_[i]->as_written(row), part, row, names_[i], out);
  for (size_t i = 0; i < cells.size(); ++i) add_field(field_text(cells[i]), part, row, added_[i], out);
  out.back() = line_end_.front();
  out.append(line_end_, 1);
}

/// With the separator after it.
void TableWriter::add_field(std::string_view text, const Table& part, size_t row, std::string_view column,
                            std::string& out) const {
  if (format_ == OutputFormat::kTsv) {
    if (text.find_first_of("\t\n") != std::string_view::npos)
      fail(ErrorCode::kInvalidData,
           "{}: column '{}': found a tab or a line end, which a .tsv file cannot hold; give --output with "
           ".csv or .jsonl",
           part.place(row), column);
    out.append(text).push_back('\t');
    return;
  }
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out.append(text).push_back(',');
    return;
  }
  out.push_back('"');
  for (const char c : text) {
    if (c == '"') out.push_back(c);
    out.push_back(c);
  }
  out += "\",";
}

void TableWriter::write_object(const Table& part, size_t row, const std::vector<Cell>& cells,
                               std::string& out) const {
  std::string object = "{";
  if (!part.objects.empty()) {
    object = part.objects[row];
    object.erase(object.rfind('}'));
    object.erase(object.find_last_not_of(" \t\r\n") + 1);
  } else {
    for (const Column& column : part.columns)
      object += fmt::format("{}{}: {}", object.size() > 1 ? ", " : "", json_string(column.name),
                            json_string(column.values[row]));
  }
  for (size_t i = 0; i < cells.size(); ++i)
    object += fmt::format("{}{}: {}", object.ends_with('{') && i == 0 ? "" : ", ", json_string(added_[i]),
                          json_text(cells[i]));
  out += object;
  out += "}\n";
}

}  // namespace lathe
