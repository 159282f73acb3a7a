#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "lathe/core/error.h"
#include "lathe/data/table_parsers.h"
#include "lathe/io/json_file.h"
#include "lathe/text/python_format.h"

namespace lathe {
namespace table_detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kJsonBlanks = " \t\r\n";

bool is_flat_list(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(),
                                         [](const Json& e) { return e.is_string() || e.is_number(); });
}

std::string number_text(const Json& value) {
  return value.is_number_float() ? python_float(value.get<double>()) : value.dump();
}

struct Cell {
  std::string text;
  ColumnType type;
};

// nested: whether the JSON of what is no flat list is kept.
Cell cell_of(const Json& value, bool nested) {
  if (value.is_null()) return {"", ColumnType::kNull};
  if (value.is_string()) return {value.get<std::string>(), ColumnType::kString};
  if (value.is_boolean()) return {value.get<bool>() ? "True" : "False", ColumnType::kString};
  if (value.is_number_float()) return {number_text(value), ColumnType::kFloat};
  if (value.is_number()) return {number_text(value), ColumnType::kInteger};
  if (is_flat_list(value)) return {value.dump(), ColumnType::kList};
  return {nested ? value.dump() : "", ColumnType::kOther};
}

/// The texts of the values of an object, or of the elements of a list, in their order.  json: has been
/// parsed. (The parser keeps neither places nor the digits of numbers.)
std::vector<std::string_view> texts_of_values(std::string_view json) {
  std::vector<std::string_view> texts;
  size_t depth = 0, begin = 0;
  const auto end_value = [&](size_t end) {
    const std::string_view text = json.substr(begin, end - begin);
    const size_t first = text.find_first_not_of(kJsonBlanks);  // none: an empty list or object
    if (first != std::string_view::npos)
      texts.push_back(text.substr(first, text.find_last_not_of(kJsonBlanks) + 1 - first));
    begin = end + 1;
  };
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') {
      for (++i; json[i] != '"'; ++i)
        if (json[i] == '\\') ++i;
    } else if (c == '{' || c == '[') {
      if (++depth == 1) begin = i + 1;
    } else if (c == '}' || c == ']') {
      if (--depth == 0) end_value(i);
    } else if (c == ',' && depth == 1) {
      end_value(i);
    } else if (c == ':' && depth == 1) {
      begin = i + 1;
    }
  }
  return texts;
}

/// The text of the value that `object`, whose text is `json`, has under a key that is there.
std::string_view text_of(std::string_view json, const Json& object, std::string_view key) {
  return texts_of_values(json)[static_cast<size_t>(std::distance(object.begin(), object.find(key)))];
}

/// JSON without its line ends, which are never inside of strings, and the blanks after them.
std::string on_a_line(std::string_view json) {
  std::string line;
  while (!json.empty()) {
    const size_t end = std::min(json.find_first_of("\r\n"), json.size());
    line += json.substr(0, end);
    json.remove_prefix(std::min(json.find_first_not_of(kJsonBlanks, end), json.size()));
    if (line.ends_with(',') && !json.empty()) line += ' ';
  }
  return line;
}

// Adds objects as rows; a key met for the first time becomes a column, empty in the rows before.
class RowCollector {
 public:
  RowCollector(Table& table, const TableOptions& options) : table_(table), options_(options) {}

  /// text: of the row, in the file.
  void add(const Json& row, uint32_t line, std::string_view text) {
    if (!row.is_object())
      fail(ErrorCode::kInvalidData, "{}:{}: row {} is {} {}, expected an object {{\"column\": value, …}}",
           table_.origin, line, table_.rows() + 1, row.type_name()[0] == 'a' ? "an" : "a", row.type_name());
    const std::vector<std::string_view> texts =
        options_.keep_numbers ? texts_of_values(text) : std::vector<std::string_view>();
    size_t number = 0;
    for (const auto& [key, value] : row.items()) {
      const auto [found, is_new] = index_.try_emplace(key, table_.columns.size());
      if (is_new) add_column(key, line);
      Column& column = table_.columns[found->second];
      fill(column);
      if (value.is_null()) column.absent.add({1, table_.rows()});
      Cell cell = cell_of(value, options_.keep_objects);
      if (options_.keep_numbers && value.is_number() && cell.text != texts[number]) {
        column.written.resize(column.values.size() + 1);
        column.written.back() = texts[number];
      }
      ++number;
      if (cell.type == ColumnType::kList || cell.type == ColumnType::kOther)
        column.nested.add({1, table_.rows()});
      column.values.push_back(std::move(cell.text));
      column.type = joined_type(column.type, cell.type);
    }
    table_.lines.push_back(line);
    if (options_.keep_objects) table_.objects.push_back(on_a_line(text));
  }

  void finish() {
    for (Column& column : table_.columns) fill(column);
  }

 private:
  // Rows up to here that lack the key.
  void fill(Column& column) {
    column.absent.add({table_.rows() - column.values.size(), column.values.size()});
    column.values.resize(table_.rows());
  }

  void add_column(const std::string& key, uint32_t line) {
    // Every row has a cell in every column: keys that are new in each row would fill the memory with nothing.
    constexpr size_t kMostColumns = 1000;
    if (table_.columns.size() == kMostColumns)
      fail(ErrorCode::kInvalidData,
           "{}:{}: found '{}', a key beyond the {} before it, expected the same few in every row: put what "
           "differs "
           "from row to row into one value, or leave it out",
           table_.origin, line, key, kMostColumns);
    table_.columns.push_back({.name = key, .values = {}, .first_row = table_.rows()});
  }

  Table& table_;
  const TableOptions& options_;
  std::unordered_map<std::string, size_t> index_;
};

Json parse_document(std::string_view bytes, const std::string& origin, uint32_t first_line) {
  return parse_ordered_json(bytes, origin, {.first_line = first_line});
}

}  // namespace

ColumnType joined_type(ColumnType a, ColumnType b) {
  if (a == ColumnType::kNull || a == b) return b;
  if (b == ColumnType::kNull) return a;
  const auto number = [](ColumnType t) { return t == ColumnType::kInteger || t == ColumnType::kFloat; };
  if (number(a) && number(b)) return ColumnType::kFloat;
  const auto nested = [](ColumnType t) { return t == ColumnType::kList || t == ColumnType::kOther; };
  return nested(a) || nested(b) ? ColumnType::kOther : ColumnType::kString;
}

void parse_json_lines(Piece& piece, const TableOptions& options, Table& table) {
  RowCollector rows(table, options);
  const auto add = [&](std::string_view line, uint32_t number) {
    rows.add(parse_document(line, table.origin, number), number, line);
  };
  for_each_json_line(piece.bytes, add, piece.line);
  rows.finish();
  piece.line += static_cast<uint32_t>(std::count(piece.bytes.begin(), piece.bytes.end(), '\n'));
  piece.bytes = {};
}

bool are_json_lines(std::string_view bytes) {
  bytes.remove_prefix(std::min(bytes.find_first_not_of(kJsonBlanks), bytes.size()));
  const size_t end = bytes.find('\n');
  return bytes.starts_with('{') && bytes.find_first_not_of(kJsonBlanks, end) != std::string_view::npos &&
         is_json(bytes.substr(0, end));
}

void parse_json(Piece& piece, const TableOptions& options, Table& table) {
  const std::string_view bytes = piece.bytes;
  if (are_json_lines(bytes)) return parse_json_lines(piece, options, table);
  const Json document = parse_document(bytes, table.origin, 1);
  const bool wrapped = document.is_object() && document.contains("data");
  const Json& list = wrapped ? document["data"] : document;
  const std::string_view text = bytes.substr(0, bytes.find_last_not_of(kJsonBlanks) + 1);
  const size_t first = bytes.find_first_not_of(kJsonBlanks);
  if (document.is_object() && !list.is_array() && text.find('\n', first) == std::string_view::npos)
    return parse_json_lines(piece, options, table);  // a single row
  if (!list.is_array())
    fail(ErrorCode::kInvalidData,
         "{}: expected an array of objects, {{\"data\": [objects]}} or an object a line; found {}",
         table.origin, document.type_name());
  const std::vector<std::string_view> texts =
      texts_of_values(wrapped ? text_of(bytes, document, "data") : bytes);
  RowCollector rows(table, options);
  uint32_t line = 1;
  for (const char* from = bytes.data(); const auto& row : list) {
    const std::string_view row_text = texts[table.rows()];
    line += static_cast<uint32_t>(std::count(from, row_text.data(), '\n'));
    from = row_text.data();
    rows.add(row, line, row_text);
  }
  rows.finish();
  piece.bytes = {};
}

}  // namespace table_detail

std::vector<std::string> list_elements(const std::string& value) {
  const nlohmann::ordered_json list = json_or_nothing(value).value_or(nullptr);
  if (!table_detail::is_flat_list(list))
    fail(ErrorCode::kInvalidData, "found {}, expected a list of strings and numbers, as a kList column has",
         value.substr(0, 40));
  std::vector<std::string> out;
  for (const auto& element : list)
    out.push_back(element.is_string() ? element.get<std::string>() : table_detail::number_text(element));
  return out;
}

}  // namespace lathe
