#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lathe/data/table.h"

namespace lathe {

/// How a user's own table is read.  By default as run_glue.py does, but that ids are no texts; the rest are
/// flags of run_classification.py, with its rules.
struct OwnColumns {
  std::vector<std::string> texts = {};  ///< empty: they are found (choose_columns)
  /// What stands between the texts, which are joined to one; none: they are one text, or the two of a pair.
  std::optional<std::string> joined_by = {};
  std::string label = "label";
  std::vector<std::string> removed = {};  ///< columns that are not looked at
  /// A column that is the text by itself where there is one and `texts` names none.
  std::string only_text = {};
  /// Whether labels are numbers to predict; none: where a column of numbers has some that are not whole.
  std::optional<bool> regression = {};
  bool adds_labels = false;     ///< labels that are not among the known ones become new ones
  bool sorts_as_texts = false;  ///< whole numbers as labels, too: 10 before 2
};

/// What the columns of a table are taken for.
struct ColumnChoice {
  std::vector<std::string> texts;     ///< in order
  std::vector<std::string> left_out;  ///< columns with a name and values that are neither text nor label
  std::vector<std::string> like_ids;  ///< those of texts and left_out that look like ids
};

/// The texts: `texts`; else sentence1 and sentence2, `only_text`, or the first two columns that may be texts:
/// neither label nor empty, nested or ids.  Errors: kNotFound for a name in `texts` or `removed` that the
/// table lacks; kUsage where the label is named as a text; kInvalidData where there is no text, or one of the
/// first two columns holds numbers.
ColumnChoice choose_columns(const Table& table, const OwnColumns& columns);

/// Whether these are whole numbers that are all different, or single words under a name such as id, idx,
/// ticket_id, ticketId.
bool looks_like_ids(const Column& column);

/// The label's column; null where `label` is removed or not there.
const Column* label_column(const Table& table, const OwnColumns& columns);
/// Errors: kNotFound, saying which columns there are and how to name one.
[[noreturn]] void fail_without_label_column(const Table& table, const OwnColumns& columns);

/// The rows of the files.  Of Parquet only columns are read that may be texts or the label.  Errors: as
/// read_tables.
Table read_own_table(const std::vector<std::string>& paths, const OwnColumns& columns);

/// One sentence for who has not named the columns of a table that has more than are used: which are the text,
/// which are left out, which look like ids, and the flag.  Empty where there is nothing to say.
std::string column_notice(const std::string& origin, const ColumnChoice& choice);

}  // namespace lathe
