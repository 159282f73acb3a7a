#pragma once
#include <functional>
#include <optional>
#include <string>

#include "lathe/data/table_reader.h"

namespace lathe {

/// How the file of a command is written: as `asked` says (csv, tsv, json, jsonl, lines), else as its name
/// says, else as it begins: JSON, or a header with a column that may be the texts', else a text a line, which
/// it says on stderr.  Not for Parquet.
TableFormat format_of_file(const TableReader& reader, const std::string& path,
                           const std::optional<std::string>& asked,
                           const std::function<bool(const std::string&)>& is_text_column);

/// Before the work begins.  Errors: kUsage where the output of a command is its --file, a folder, or cannot
/// be written.
void check_output_file(const std::string& path, const std::optional<std::string>& file);

}  // namespace lathe
