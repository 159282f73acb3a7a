#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lathe/core/error.h"
#include "lathe/core/strtod_c.h"
#include "lathe/data/table_parsers.h"

namespace lathe::table_detail {
namespace {

// Takes the next line off `rest`, without its LF or CRLF.
std::string_view take_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

void split_tabs(std::string_view line, std::vector<std::string_view>& fields) {
  fields.clear();
  for (;;) {
    const size_t tab = line.find('\t');
    fields.push_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return;
    line.remove_prefix(tab + 1);
  }
}

void add_columns(const std::vector<std::string>& names, Table& table) {
  for (const std::string& name : names) table.columns.push_back({.name = name, .values = {}});
}

[[noreturn]] void fail_ragged(const Table& table, uint32_t line, size_t found, const char* separator) {
  fail(ErrorCode::kInvalidData,
       "{}:{}: found {} fields, expected {} as the header has; look for a missing or extra {} in that line",
       table.origin, line, found, table.columns.size(), separator);
}

void finish_columns(Table& table) {
  for (Column& column : table.columns) {
    column.type = type_of_text(column.values);
    for (size_t row = 0; row < column.values.size(); ++row)
      if (column.values[row].empty()) column.empty.add({1, row});
  }
}

// One record of RFC 4180; a quote that does not open a field is text, as pandas reads it.
class CsvReader {
 public:
  CsvReader(const Piece& piece, const std::string& origin)
      : bytes_(piece.bytes), origin_(origin), line_(piece.line), last_(piece.last) {}

  // What is not read yet.
  Piece rest() const { return {bytes_.substr(at_), line_, last_}; }

  // False at the end, and before a record whose end is not in this piece.  `line` is where the record begins;
  // a record of one unquoted field that holds spaces and tabs at most is blank, as for pandas.
  bool next(std::vector<std::string>& fields, uint32_t& line, bool& blank) {
    if (at_ >= bytes_.size()) return false;
    const size_t begin = at_;
    bool ended = last_;
    fields.assign(1, "");
    line = line_;
    blank = true;
    while (at_ < bytes_.size()) {
      const char c = bytes_[at_];
      if (c == '"' && fields.back().empty() && !was_quoted_) {
        blank = false;
        read_quoted(fields.back());
        continue;
      }
      ++at_;
      if (c == ',') {
        fields.emplace_back();
        was_quoted_ = blank = false;
      } else if (c == '\n' || c == '\r') {
        if (c == '\r' && at_ < bytes_.size() && bytes_[at_] == '\n') ++at_;
        ++line_;
        ended |=
            bytes_[at_ - 1] == '\n' || at_ < bytes_.size();  // after a carriage return a line feed may come
        break;
      } else {
        fields.back().push_back(c);
        if (c != ' ' && c != '\t') blank = false;
      }
    }
    was_quoted_ = false;
    if (!ended) at_ = begin, line_ = line;
    return ended;
  }

 private:
  void read_quoted(std::string& field) {
    const uint32_t begin = line_;
    was_quoted_ = true;
    for (++at_; at_ < bytes_.size(); ++at_) {
      const char c = bytes_[at_];
      if (c == '"') {
        if (at_ + 1 >= bytes_.size() || bytes_[at_ + 1] != '"') {
          ++at_;
          return;
        }
        ++at_;
      } else if (c == '\n') {
        ++line_;
      }
      field.push_back(c);
    }
    if (!last_) return;
    fail(
        ErrorCode::kInvalidData,
        "{}:{}: a quote opens here and is never closed; expected \"…\" around the field and \"\" for a quote "
        "in it",
        origin_, begin);
  }

  std::string_view bytes_;
  const std::string& origin_;
  size_t at_ = 0;
  uint32_t line_;
  bool last_;
  bool was_quoted_ = false;  // the field at hand began with a quoted part
};

// Pandas reads a number with blanks around it as that number.
std::string_view without_blanks(std::string_view text) {
  constexpr const char* kBlanks = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::optional<int64_t> integer_of(std::string_view text) {
  text = without_blanks(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Decimal digits, point and exponent; no "nan", "inf" or hexadecimal, which are words in a text column.
bool is_decimal(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - begin;
  };
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
  size_t found = digits();
  if (at < text.size() && text[at] == '.') {
    ++at;
    found += digits();
  }
  if (found == 0) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

}  // namespace

ColumnType type_of_text(const std::vector<std::string>& values) {
  ColumnType type = ColumnType::kNull;
  for (const std::string& value : values) {
    if (value.empty()) continue;
    if (integer_of(value)) {
      if (type == ColumnType::kNull) type = ColumnType::kInteger;
    } else if (is_decimal(without_blanks(value))) {
      type = ColumnType::kFloat;
    } else {
      return ColumnType::kString;
    }
  }
  return type;
}

std::optional<double> number_of(std::string_view text) {
  text = without_blanks(text);
  if (!is_decimal(text)) return std::nullopt;
  return strtod_c(std::string(text).c_str());
}

std::string number_name(const std::string& text) {
  if (const auto integer = integer_of(text)) return std::to_string(*integer);
  const auto number = number_of(text);
  return number ? fmt::format("{}", *number) : text;
}

void parse_tsv(Piece& piece, const TableOptions& options, Table& table) {
  std::vector<std::string_view> fields;
  add_columns(options.column_names, table);
  while (!piece.bytes.empty()) {
    const std::string_view line = take_line(piece.bytes);
    const uint32_t line_number = piece.line++;
    if (line.empty()) continue;
    split_tabs(line, fields);
    if (table.columns.empty()) {
      if (fields.size() == 1 && fields[0].find(',') != std::string::npos)
        fail(ErrorCode::kInvalidData,
             "{}:{}: found one column, '{}', expected columns parted by tabs; a table of commas ends in .csv",
             table.origin, line_number, fields[0]);
      add_columns({fields.begin(), fields.end()}, table);
    } else if (fields.size() == table.columns.size()) {
      for (size_t i = 0; i < fields.size(); ++i) table.columns[i].values.emplace_back(fields[i]);
      table.lines.push_back(line_number);
    } else if (options.skip_ragged) {
      ++table.skipped_rows;
    } else {
      fail_ragged(table, line_number, fields.size(), "tab");
    }
  }
  finish_columns(table);
}

void parse_csv(Piece& piece, const TableOptions& options, Table& table) {
  CsvReader reader(piece, table.origin);
  std::vector<std::string> fields;
  uint32_t line = 1;
  bool blank = false;
  add_columns(options.column_names, table);
  while (reader.next(fields, line, blank)) {
    if (blank) continue;
    if (table.columns.empty()) {
      if (fields[0].starts_with("sep="))
        fail(ErrorCode::kInvalidData,
             "{}:{}: found '{}', a line of Excel's, expected the names of the columns: leave that line out, "
             "and "
             "part columns by commas",
             table.origin, line, fields[0]);
      if (fields.size() == 1 && fields[0].find_first_of(";\t") != std::string::npos)
        fail(ErrorCode::kInvalidData,
             "{}:{}: found one column, '{}', expected columns parted by commas; save the table so, or parted "
             "by "
             "tabs as .tsv (the name of a single column has neither ; nor a tab)",
             table.origin, line, fields[0]);
      add_columns(fields, table);
      continue;
    }
    if (fields.size() != table.columns.size()) fail_ragged(table, line, fields.size(), "comma or quote");
    for (size_t i = 0; i < fields.size(); ++i) table.columns[i].values.push_back(std::move(fields[i]));
    table.lines.push_back(line);
  }
  piece = reader.rest();
  finish_columns(table);
}

void parse_lines(Piece& piece, Table& table) {
  add_columns({"text"}, table);
  while (!piece.bytes.empty()) {
    table.columns[0].values.emplace_back(take_line(piece.bytes));
    table.lines.push_back(piece.line++);
  }
  table.columns[0].type = ColumnType::kString;
}

void parse_trec(Piece& piece, Table& table) {
  add_columns({"text", "label"}, table);
  while (!piece.bytes.empty()) {
    const std::string_view line = take_line(piece.bytes);
    const uint32_t line_number = piece.line++;
    if (line.empty()) continue;
    const size_t blank = line.find(' ');
    const std::string_view label = line.substr(0, blank);
    const size_t colon = label.find(':');
    if (blank == std::string_view::npos || colon == 0 || colon == std::string_view::npos)
      fail(ErrorCode::kInvalidData,
           "{}:{}: found '{}', expected 'COARSE:fine question' (TREC); other tables end in "
           ".tsv, .csv, .json or .jsonl",
           table.origin, line_number, line.substr(0, 40));
    table.columns[0].values.emplace_back(line.substr(blank + 1));
    table.columns[1].values.emplace_back(label.substr(0, colon));
    table.lines.push_back(line_number);
  }
  table.columns[0].type = table.columns[1].type = ColumnType::kString;
}

}  // namespace lathe::table_detail
