#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lathe/data/glue_tasks.h"
#include "lathe/data/own/own_columns.h"
#include "lathe/data/table.h"

namespace lathe {

/// What a data set asks of the head of a classifier.
enum class LabelKind { kClasses, kRegression, kMultiLabel };

/// The names of the classes, id = position.  Empty for regression.
struct LabelSet {
  LabelKind kind = LabelKind::kClasses;
  std::vector<std::string> names;

  /// Outputs of the head: one per class, 1 for regression.
  int num_labels() const { return kind == LabelKind::kRegression ? 1 : static_cast<int>(names.size()); }
  /// The id of every name, as a view of `names`; of equal names the first one's.  Where they are LABEL_0,
  /// LABEL_1, …, which are classes without names, those of "0", "1", … too (kClasses).
  std::unordered_map<std::string_view, int32_t> ids() const;
  /// Takes over the order of a model's label2id if its names are these names, upper and lower case alike.
  /// Returns whether it did; else nothing changes.
  bool adopt(const std::vector<std::pair<std::string, int>>& label2id);
  bool operator==(const LabelSet&) const = default;
};

/// Texts and what they are labelled with.  Rows without a label have -1 (several labels: 0) there.
struct TextDataset {
  std::string origin;
  std::vector<std::string> first;
  std::vector<std::string> second;  ///< empty, or one per row
  LabelSet label_set;
  std::vector<int32_t> labels;      ///< kClasses: [rows]
  std::vector<float> targets;       ///< kRegression: [rows]; kMultiLabel: [rows · names] 0 or 1
  bool labelled = false;            ///< false: no row has a label (a test file)
  std::string unlabelled_row = {};  ///< "file:line" of the first row without one; "" if all have one
  size_t unclassified = 0;   ///< rows with -1 in a ClassLabel of Parquet; unlabelled_row is none of them
  int64_t skipped_rows = 0;  ///< damaged rows of GLUE files that were left out
  Gaps empty_texts = {};     ///< empty cells of TSV and CSV where texts are
  std::string first_empty_text = {};  ///< "file:line" of the first; "" if there is none
  ColumnChoice columns = {};          ///< of a user's own file

  size_t size() const { return first.size(); }
  bool has_pairs() const { return !second.empty(); }
  /// Keeps the first rows only (--max_train_samples and its like); no effect if there are no more.
  void truncate(size_t rows);
  /// Row i becomes what row order[i] was.
  void reorder(std::span<const int64_t> order);
  /// Numbers the labels by `set`, which has all their names.
  void relabel(const LabelSet& set);
  /// kClasses: leaves out the rows without a label.
  void keep_labelled();
};

/// One file of a GLUE task in GLUE's own layout, or a table with the task's text keys and `label`.
/// Errors: as read_table; kInvalidData, naming file, line, value and known labels, for a label outside the
/// set, and naming the place for a text that is missing in JSON or Parquet.
TextDataset read_glue_file(const GlueTask& task, const std::string& path);

/// A user's own file.  columns: where labels and texts are.  known = nullptr: the labels are found in the
/// file, a list column is multi-label, a column of floats is regression, else the sorted distinct values are
/// the classes. Otherwise labels must be in *known.  Errors: as read_glue_file and choose_columns; kNotFound
/// without a label column if known is null.  A -1 in a ClassLabel of Parquet is no label.
TextDataset read_own_file(const std::string& path, const LabelSet* known = nullptr,
                          const OwnColumns& columns = {});
/// Several files: their rows one after the other.
TextDataset read_own_files(const std::vector<std::string>& paths, const LabelSet* known = nullptr,
                           const OwnColumns& columns = {});

/// The same from a table, for tests and other sources.
TextDataset dataset_from_table(const Table& table, const LabelSet* known = nullptr,
                               const OwnColumns& columns = {});
TextDataset dataset_from_glue_table(const GlueTask& task, const Table& table);

}  // namespace lathe
