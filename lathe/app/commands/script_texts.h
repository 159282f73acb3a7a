#pragma once
#include <optional>
#include <vector>

#include "lathe/app/commands/script_run.h"
#include "lathe/data/dataset.h"

namespace lathe {

/// The script whose rules count where the two differ.  run_classification: a column `sentence` is the text;
/// labels are sorted as texts; validation and test data may add some, and one is too few; where there are no
/// validation data, test data are evaluated.
enum class TextScript { kRunGlue, kRunClassification };

/// Training, validation and test texts with one set of labels.
struct Texts {
  const GlueTask* task = nullptr;  ///< null: the user's own files
  LabelSet labels;
  std::optional<TextDataset> train;
  std::vector<TextDataset> validation, test;  ///< MNLI has two of each
};

/// Where the texts of a data set are: its files and columns.
std::string where(const TextDataset& data);

/// Reads what the run needs, own files or a data set of the Hub, and says what it took: files, columns, empty
/// texts, rows without a label.  The order of the labels is that of the model, where it knows the same names.
/// Rows are shuffled and limited as the arguments say.  Errors: those of reading; kInvalidData, with its
/// place, for a row without the label that it needs; kUsage where --remove_splits leaves nothing to read.
Texts read_texts(TextScript script, const GlueArguments& glue, const TrainingArguments& training,
                 const ModelConfig& config, const HubSettings& hub, ScriptRun& run);

}  // namespace lathe
