#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/data/lm/text_groups.h"
#include "lathe/data/table.h"

namespace lathe {

/// The texts of files, as run_mlm.py reads them.  It does not move: the texts lie in it.
struct TextFiles {
  std::string origin;                   ///< file name, of several the first one's
  std::string from;                     ///< "lines", or "column 'text'"
  std::string column;                   ///< of a table: its name
  std::vector<std::string_view> texts;  ///< in the order of the files; cells without a text are empty
  std::deque<std::string> contents = {};
  std::deque<Table> tables = {};

  TextFiles() = default;
  TextFiles(const TextFiles&) = delete;
  TextFiles& operator=(const TextFiles&) = delete;
};

/// Adds the texts of files, one file after the other.  .csv, .tsv, .json, .jsonl and .parquet are tables,
/// whose texts are in the column `text`, else in the first one; all others hold a text a line (lines_of).
/// Errors: as read_table; kInvalidData, with the file, for one that is empty, is not text or has no columns,
/// and for a column that is not text.  keep_line_ends: a line that has an end keeps it, as "\n", as
/// load_dataset("text", keep_linebreaks=True) has it.
void read_text_files(const std::vector<std::string>& paths, TextFiles& out, bool keep_line_ends = false);

}  // namespace lathe
