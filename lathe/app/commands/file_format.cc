#include "lathe/app/commands/file_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/app/terminal/terminal.h"
#include "lathe/core/error.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

/// Names that a first line of the wanted columns has, if it is the header of a table.
std::vector<std::string> names_in(std::string_view head, char separator) {
  std::vector<std::string> names;
  for (std::string_view line = head.substr(0, head.find('\n')); !line.empty();) {
    const size_t end = std::min(line.find(separator), line.size());
    std::string_view name = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    if (name.ends_with('\r')) name.remove_suffix(1);
    if (name.size() > 1 && name.starts_with('"') && name.ends_with('"'))
      name = name.substr(1, name.size() - 2);
    names.emplace_back(name);
  }
  return names;
}

/// Told by its beginning: JSON, or a header with a column that may be the texts'; else lines.
TableFormat format_by_head(std::string_view head,
                           const std::function<bool(const std::string&)>& is_text_column) {
  const size_t begin = head.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return TableFormat::kLines;
  const std::string_view first = head.substr(begin, head.find('\n', begin) - begin);
  if (head[begin] == '{' && (is_json(first) || first.size() < 3)) return TableFormat::kJson;
  if (head[begin] == '[' && head.find_first_not_of(" \t\r\n", begin + 1) == head.find('{', begin))
    return TableFormat::kJson;
  for (const auto& [separator, format] : {std::pair{'\t', TableFormat::kTsv}, {',', TableFormat::kCsv}}) {
    const std::vector<std::string> names = names_in(head, separator);
    if (std::any_of(names.begin(), names.end(), is_text_column)) return format;
  }
  return TableFormat::kLines;
}

}  // namespace

TableFormat format_of_file(const TableReader& reader, const std::string& path,
                           const std::optional<std::string>& asked,
                           const std::function<bool(const std::string&)>& is_text_column) {
  if (asked == "lines") return TableFormat::kLines;
  if (asked) return *table_format_of("." + *asked);
  if (const auto format = table_format_of(path); format && path != kStandardInput)
    return format == TableFormat::kTrec ? TableFormat::kLines : *format;
  const TableFormat found = format_by_head(reader.head(), is_text_column);
  if (found == TableFormat::kLines)
    print_error(
        fmt::format("{}: each line is taken for a text; for a table say --format\n", reader.origin()));
  return found;
}

void check_output_file(const std::string& path, const std::optional<std::string>& file) {
  std::error_code none;
  if (file && std::filesystem::equivalent(*file, path, none))
    fail(ErrorCode::kUsage, "--output: found {}, which is --file; expected another file", path);
  if (real_file_system().is_directory(path))
    fail(ErrorCode::kUsage, "--output: {} is a folder, expected a file", path);
  if (!real_file_system().is_writable(path))
    fail(ErrorCode::kUsage, "--output: {} cannot be written; give a file in a folder where you may write",
         path);
}

}  // namespace lathe
