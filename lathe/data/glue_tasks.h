#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

/// One of GLUE's tasks: keys, labels and metrics of run_glue, columns and file names of GLUE's own TSV files.
struct GlueTask {
  std::string name;                   ///< as in --task_name: "mrpc"
  std::string first_key, second_key;  ///< text keys of run_glue; second empty for single sentences
  std::string first_column, second_column, label_column;  ///< names in GLUE's TSV header
  std::vector<std::string> labels;                        ///< id = position; empty: regression
  std::vector<std::string> metrics;                       ///< keys without a prefix, in HF's order
  std::vector<std::string> headerless;  ///< columns of train and dev where those have no header (CoLA)

  bool is_regression() const { return labels.empty(); }
};

/// Of cola mnli mrpc qnli qqp rte sst2 stsb wnli, in upper or lower case, with or without hyphen.  Errors:
/// kUsage, listing the names.
const GlueTask& glue_task(std::string_view name);

/// Where the files of a task are; empty: there is none.  MNLI has two of validation and test, matched first.
struct TaskFiles {
  std::string task;
  std::string train;
  std::vector<std::string> validation, test;
  std::vector<std::string> looked_in;  ///< folders that were tried, in order

  /// Errors: kNotFound, naming the file wanted and the folders looked in.
  const std::string& require_train() const;
  const std::vector<std::string>& require_validation() const;
  const std::vector<std::string>& require_test() const;
};

/// Looks for train.tsv, dev.tsv, test.tsv (MNLI: dev_matched.tsv …), each also with .gz, in data_dir, then in
/// its folders named after the task (`MRPC`, `mrpc`, `STS-B` …, also below `glue`), then below `env_dir`, the
/// value of LATHE_DATA_DIR.  The first folder with any of them wins.  Where dev.tsv is missing, the first
/// dev*.tsv serves.  Either folder may be "".
/// Errors: kNotFound, listing the folders looked in.
TaskFiles find_task_files(const GlueTask& task, const std::string& data_dir, const std::string& env_dir);

/// Whether find_task_files finds some below `env_dir`.
bool has_task_files(const GlueTask& task, const std::string& env_dir);

/// SQuAD's files: train-v1.1.json, dev-v1.1.json (v2: …-v2.0.json), each also .gz, exact names before longer
/// ones (train-v1.1-part.json), those in alphabetical order; in data_dir, data_dir/squad, env_dir/squad.
struct SquadFiles {
  std::string train, validation;  ///< "" if there is none
  std::vector<std::string> looked_in;
};
SquadFiles look_for_squad_files(bool version_2, const std::string& data_dir, const std::string& env_dir);
/// Errors: kNotFound, listing the folders looked in.
SquadFiles find_squad_files(bool version_2, const std::string& data_dir, const std::string& env_dir);

}  // namespace lathe
