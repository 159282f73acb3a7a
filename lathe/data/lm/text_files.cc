#include "lathe/data/lm/text_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/io/file_system.h"
#include "lathe/io/foreign_content.h"
#include "lathe/io/gzip.h"
#include "lathe/text/unicode.h"

namespace lathe {
namespace {

bool is_table(const std::string& path) {
  const auto format = table_format_of(path);
  if (is_parquet(path)) return true;
  return format && *format != TableFormat::kTrec && *format != TableFormat::kLines;
}

/// Every end of a line as "\n".
std::string with_plain_ends(const std::string& text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    plain += text[i] == '\r' ? '\n' : text[i];
  }
  return plain;
}

/// Of a text whose lines end so.
std::vector<std::string_view> lines_with_ends(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

void add_lines(const std::string& path, TextFiles& out, bool keep_line_ends) {
  std::string text = read_text(real_file_system(), path, kDataFileBytes);
  if (text.empty()) fail(ErrorCode::kInvalidData, "{}: is empty, expected texts, one a line", path);
  if (text.find_first_not_of(" \t\n\v\f\r") == std::string::npos)
    fail(ErrorCode::kInvalidData, "{}: none of its {} lines has a word, expected texts, one a line", path,
         lines_of(text).size());
  refuse_foreign_content(text, path, "texts, one a line");
  if (const size_t at = unicode::find_invalid(text); at != std::string::npos)
    fail(ErrorCode::kInvalidData, "{}:{}: is no UTF-8; write the file as UTF-8", path,
         std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1);
  out.contents.push_back(keep_line_ends ? with_plain_ends(text) : std::move(text));
  const std::vector<std::string_view> lines =
      keep_line_ends ? lines_with_ends(out.contents.back()) : lines_of(out.contents.back());
  out.texts.insert(out.texts.end(), lines.begin(), lines.end());
}

void add_table(const std::string& path, TextFiles& out) {
  const auto wanted = [](std::string_view, bool nested) { return !nested; };
  out.tables.push_back(read_table(path, {}, wanted));
  const Table& table = out.tables.back();
  if (table.columns.empty()) fail(ErrorCode::kInvalidData, "{}: has no columns, expected one of texts", path);
  const Column* column = table.find("text");
  if (column == nullptr) column = &table.columns.front();
  if (!out.column.empty() && out.column != column->name)
    fail(ErrorCode::kInvalidData,
         "{}: texts are in the column '{}', in {} in '{}'; expected the same in all files", path,
         column->name, out.origin, out.column);
  out.column = column->name;
  if (column->nested.count > 0)
    fail(ErrorCode::kInvalidData,
         "{}: column '{}': found nested JSON or bytes that are no UTF-8, expected text; name the column of "
         "texts 'text'",
         table.place(column->nested.first), column->name);
  out.texts.insert(out.texts.end(), column->values.begin(), column->values.end());
}

}  // namespace

void read_text_files(const std::vector<std::string>& paths, TextFiles& out, bool keep_line_ends) {
  if (out.origin.empty() && !paths.empty()) out.origin = paths.front();
  for (const std::string& path : paths)
    is_table(path) ? add_table(path, out) : add_lines(path, out, keep_line_ends);
  out.from = out.column.empty() ? "a text a line" : fmt::format("texts in column '{}'", out.column);
}

}  // namespace lathe
