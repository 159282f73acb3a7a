#include "lathe/app/commands/script_texts.h"

#include <fmt/format.h>

#include <algorithm>

#include "lathe/core/environment.h"
#include "lathe/data/hub_data.h"
#include "lathe/data/numpy_random.h"
#include "lathe/io/json_file.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

/// The splits that a run reads: of MNLI two for validation and test.
std::vector<std::string> splits_for(const TrainingArguments& training, bool mnli) {
  std::vector<std::string> wanted;
  const auto want = [&](bool needed, const char* split) {
    if (!needed) return;
    for (const char* part : {"_matched", "_mismatched"})
      if (mnli) wanted.push_back(std::string(split) + part);
    if (!mnli) wanted.emplace_back(split);
  };
  if (training.do_train) wanted.emplace_back("train");
  want(training.do_eval, "validation");
  want(training.do_predict, "test");
  return wanted;
}

/// The task's files from the Hub, as GLUE's authors put them there.
TaskFiles task_on_hub(const GlueTask& task, const GlueArguments& glue, const TrainingArguments& training,
                      const HubSettings& hub) {
  const HubDataset dataset{"nyu-mll/glue", task.name, glue.cache_dir.value_or("")};
  TaskFiles files{.task = task.name};
  for (const auto& [split, paths] :
       fetch_splits(real_file_system(), dataset, splits_for(training, task.name == "mnli"), hub)) {
    if (paths.size() != 1)
      fail(ErrorCode::kUnsupported, "data set \"{}\": {} of {} lies in {} files, expected one", dataset.name,
           split, task.name, paths.size());
    if (split == "train")
      files.train = paths[0];
    else  // "…_matched" sorts before "…_mismatched"
      (split.starts_with("test") ? files.test : files.validation).push_back(paths[0]);
  }
  return files;
}

Texts read_task(const GlueArguments& glue, const TrainingArguments& training, const HubSettings& hub) {
  Texts texts;
  texts.task = &glue_task(*glue.task_name);
  const std::string data_dir = glue.data_dir.value_or(""), root = environment("LATHE_DATA_DIR");
  const TaskFiles files = data_dir.empty() && !has_task_files(*texts.task, root)
                              ? task_on_hub(*texts.task, glue, training, hub)
                              : find_task_files(*texts.task, data_dir, root);
  if (training.do_train) texts.train = read_glue_file(*texts.task, files.require_train());
  if (training.do_eval)
    for (const std::string& path : files.require_validation())
      texts.validation.push_back(read_glue_file(*texts.task, path));
  if (training.do_predict)
    for (const std::string& path : files.require_test())
      texts.test.push_back(read_glue_file(*texts.task, path));
  texts.labels.names = texts.task->labels;
  if (texts.task->is_regression()) texts.labels.kind = LabelKind::kRegression;
  return texts;
}

/// Whether its architecture is one with a classifier.  id2label is no sign of one that it lacks: transformers
/// 5 leaves that out where two classes have no names.
bool is_classifier(const ModelConfig& config) {
  const auto names = config.json->find("architectures");
  return names != config.json->end() && names->is_array() &&
         std::find(names->begin(), names->end(), architecture(config, HeadKind::kSequenceClassification)) !=
             names->end();
}

/// Labels of a model that was fine-tuned before; none for a bare encoder.
LabelSet labels_of(const ModelConfig& config) {
  LabelSet set;
  if (!names_labels(config) && !is_classifier(config)) return set;
  const MakeTask task = saved_task(config);
  if (task == token_labels) return set;  // of tokens
  set.names = config_labels(config);
  if (task == regression) set = {LabelKind::kRegression, {}};
  if (task == multi_label) set.kind = LabelKind::kMultiLabel;
  return set;
}

/// "a,b" as names, with the blanks that they have.
std::vector<std::string> names_of(const std::optional<std::string>& list) {
  return list ? split_at_commas(*list) : std::vector<std::string>();
}

/// The name that a split has in the data set.
std::string name_of_split(const GlueArguments& glue, const std::string& split) {
  return (split == "train"        ? glue.train_split_name
          : split == "validation" ? glue.validation_split_name
                                  : glue.test_split_name)
      .value_or(split);
}

/// Own files of a run, or those of a data set on the Hub, by split.
class OwnFiles {
 public:
  OwnFiles(TextScript script, const GlueArguments& glue, const TrainingArguments& training,
           const HubSettings& hub, ScriptRun& run)
      : script_(script), glue_(glue), training_(training), hub_(hub), run_(run) {}

  SplitFiles find() const {
    check_removed();
    SplitFiles files = glue_.dataset_name ? on_hub() : named();
    if (script_ == TextScript::kRunClassification && training_.do_eval && !files.contains("validation") &&
        files.contains("test")) {
      run_.say(LogLevel::kWarning, "there are no validation data: the test data are evaluated");
      files["validation"] = files["test"];
    }
    for (const auto& [needed, split, flag] : {std::tuple{training_.do_train, "train", "do_train"},
                                              {training_.do_eval, "validation", "do_eval"},
                                              {training_.do_predict, "test", "do_predict"}})
      if (needed && !files.contains(split))
        fail(ErrorCode::kUsage,
             "--{}: found no {} data, because --remove_splits leaves them out; leave out one of the two",
             flag, split);
    return files;
  }

 private:
  bool is_removed(const std::string& split) const {
    const auto removed = names_of(glue_.remove_splits);
    return std::find(removed.begin(), removed.end(), name_of_split(glue_, split)) != removed.end();
  }

  void check_removed() const {
    const std::vector<std::string> known = {name_of_split(glue_, "train"), name_of_split(glue_, "validation"),
                                            name_of_split(glue_, "test")};
    for (const std::string& name : names_of(glue_.remove_splits))
      if (std::find(known.begin(), known.end(), name) == known.end())
        fail(ErrorCode::kUsage,
             "--remove_splits: found '{}', expected some of '{}', with commas and no blanks between them",
             name, fmt::join(known, "', '"));
  }

  SplitFiles named() const {
    SplitFiles files;
    if (glue_.train_file) files["train"] = {*glue_.train_file};
    if (glue_.validation_file) files["validation"] = {*glue_.validation_file};
    if (glue_.test_file) files["test"] = {*glue_.test_file};
    for (const char* split : {"train", "validation", "test"})
      if (is_removed(split)) files.erase(split);
    return files;
  }

  SplitFiles on_hub() const {
    std::vector<std::string> wanted = splits_for(training_, false);
    const auto test_for_validation = [&] {
      std::replace(wanted.begin(), wanted.end(), std::string("validation"), std::string("test"));
    };
    if (script_ == TextScript::kRunClassification && is_removed("validation")) test_for_validation();
    std::erase_if(wanted, [&](const std::string& split) { return is_removed(split); });
    try {
      return fetch(wanted);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotFound || script_ == TextScript::kRunGlue || !training_.do_eval ||
          glue_.validation_split_name)
        throw;
    }
    test_for_validation();
    return fetch(wanted);
  }

  SplitFiles fetch(std::vector<std::string> splits) const {
    std::sort(splits.begin(), splits.end());
    splits.erase(std::unique(splits.begin(), splits.end()), splits.end());
    std::vector<std::string> names;
    for (const std::string& split : splits) names.push_back(name_of_split(glue_, split));
    SplitFiles by_name = fetch_splits(
        real_file_system(), {*glue_.dataset_name, glue_.dataset_config_name, glue_.cache_dir.value_or("")},
        names, hub_);
    SplitFiles files;
    for (size_t i = 0; i < splits.size(); ++i) files[splits[i]] = by_name[names[i]];
    return files;
  }

  TextScript script_;
  const GlueArguments& glue_;
  const TrainingArguments& training_;
  const HubSettings& hub_;
  ScriptRun& run_;
};

OwnColumns columns_of(TextScript script, const GlueArguments& glue) {
  OwnColumns columns{.texts = names_of(glue.text_column_names),
                     .label = glue.label_column_name.value_or("label"),
                     .removed = names_of(glue.remove_columns),
                     .regression = glue.do_regression};
  if (glue.text_column_names) columns.joined_by = glue.text_column_delimiter;
  if (script == TextScript::kRunClassification) {
    columns.only_text = "sentence";
    columns.sorts_as_texts = true;
  }
  return columns;
}

/// Numbers all data by texts.labels.
void relabel(Texts& texts) {
  if (texts.train) texts.train->relabel(texts.labels);
  for (auto* split : {&texts.validation, &texts.test})
    for (TextDataset& data : *split) data.relabel(texts.labels);
}

/// Labels that validation or test data have in addition become labels of all, as in run_classification.
void add_labels(const LabelSet& learnt, Texts& texts, ScriptRun& run) {
  if (texts.labels == learnt) return;
  const std::vector<std::string> added(texts.labels.names.begin() + std::ssize(learnt.names),
                                       texts.labels.names.end());
  run.say(LogLevel::kWarning,
          fmt::format("labels that no training row has are added, and cannot be learnt: {}",
                      fmt::join(added, ", ")));
  std::sort(texts.labels.names.begin(), texts.labels.names.end());
  relabel(texts);
}

Texts read_files(TextScript script, const GlueArguments& glue, const TrainingArguments& training,
                 const ModelConfig& config, const HubSettings& hub, ScriptRun& run) {
  Texts texts;
  SplitFiles files = OwnFiles(script, glue, training, hub, run).find();
  OwnColumns columns = columns_of(script, glue);
  std::optional<LabelSet> known, learnt;
  const auto read = [&](const std::vector<std::string>& paths) {
    TextDataset data = read_own_files(paths, known ? &*known : nullptr, columns);
    if (columns.texts.empty()) {
      if (const std::string notice = column_notice(data.origin, data.columns); !notice.empty())
        run.say(LogLevel::kWarning, notice);
      columns.texts = data.columns.texts;
    }
    known = data.label_set;
    return data;
  };
  if (files.contains("train")) {
    TextDataset train = read(files["train"]);
    learnt = known;
    columns.adds_labels = script == TextScript::kRunClassification;
    if (training.do_train) texts.train = std::move(train);
  } else if (const LabelSet saved = labels_of(config); saved.num_labels() > 0) {
    known = saved;
  }
  if (files.contains("validation") && training.do_eval) texts.validation.push_back(read(files["validation"]));
  if (files.contains("test") && training.do_predict) texts.test.push_back(read(files["test"]));
  if (known) texts.labels = *known;
  if (learnt) add_labels(*learnt, texts, run);
  if (learnt && script == TextScript::kRunClassification && texts.labels.kind == LabelKind::kClasses &&
      texts.labels.names.size() < 2)
    fail(ErrorCode::kInvalidData, "{}: found one label, '{}', expected two or more to tell apart",
         files["train"].front(), texts.labels.names.front());
  return texts;
}

/// A model's own order of the labels, where its names are the same.
void adopt_label_order(ScriptRun& run, const ModelConfig& config, Texts& texts) {
  const auto it = config.json->find("label2id");
  if (texts.labels.kind != LabelKind::kClasses || it == config.json->end() || !it->is_object()) return;
  std::vector<std::pair<std::string, int>> label2id;
  for (const auto& [name, id] : it->items())
    if (id.is_number_integer()) label2id.emplace_back(name, id.get<int>());
  const LabelSet before = texts.labels;
  if (!texts.labels.adopt(label2id)) {
    if (texts.task != nullptr && !label2id.empty() && !label2id[0].first.starts_with("LABEL_"))
      run.say(LogLevel::kWarning,
              fmt::format("the model's label2id has other names than {}; its labels are not used",
                          texts.task->name));
    return;
  }
  if (texts.labels == before) return;
  relabel(texts);
}

/// Every text is there; an empty cell may be one or a gap.
void say_empty_texts(const TextDataset& data, ScriptRun& run) {
  if (data.empty_texts.count > 0)
    run.say(LogLevel::kWarning,
            fmt::format("{}: cells without text: {}, the first at {}; they are taken for empty texts",
                        data.origin, data.empty_texts.count, data.first_empty_text));
}

void say_files(const Texts& texts, ScriptRun& run) {
  if (texts.train) run.say(LogLevel::kInfo, "training data: " + where(*texts.train));
  for (const TextDataset& data : texts.validation)
    run.say(LogLevel::kInfo, "validation data: " + data.origin);
  for (const TextDataset& data : texts.test) run.say(LogLevel::kInfo, "test data: " + data.origin);
  if (texts.train) say_empty_texts(*texts.train, run);
  for (const auto* split : {&texts.validation, &texts.test})
    for (const TextDataset& data : *split) say_empty_texts(data, run);
}

/// Of a ClassLabel with -1 in some rows those that have a class are learnt from and scored.
void leave_out_unclassified(TextDataset& data, ScriptRun& run) {
  if (data.unclassified == 0 || !data.labelled) return;
  run.say(LogLevel::kWarning,
          fmt::format("{}: rows without a label (-1 of a ClassLabel): {} of {}; they are left out",
                      data.origin, data.unclassified, data.size()));
  data.keep_labelled();
}

/// Every row to learn from has a label; of a file to evaluate all have, or none.
void check_labels(Texts& texts, ScriptRun& run) {
  const auto refuse = [](const TextDataset& data, const char* wanted) {
    fail(ErrorCode::kInvalidData, "{}: found no label, expected {}: give it one, or leave the row out",
         data.unlabelled_row, wanted);
  };
  if (texts.train && !texts.train->unlabelled_row.empty())
    refuse(*texts.train, "one in every row of a file to learn from");
  if (texts.train) leave_out_unclassified(*texts.train, run);
  for (TextDataset& data : texts.validation) {
    if (!data.labelled)
      run.say(LogLevel::kWarning, data.origin + " has no labels: no loss and no metrics of it are reported");
    else if (!data.unlabelled_row.empty())
      refuse(data, "one as in the other rows");
    leave_out_unclassified(data, run);
  }
}

void limit(TextDataset& data, const std::optional<int64_t>& rows) {
  if (rows) data.truncate(static_cast<size_t>(*rows));
}

/// Shuffles as datasets does, then keeps the first rows.
void choose_rows(const GlueArguments& glue, Texts& texts) {
  if (texts.train) {
    if (glue.shuffle_train_dataset)
      texts.train->reorder(NumpyGenerator(static_cast<uint64_t>(glue.shuffle_seed))
                               .permutation(static_cast<int64_t>(texts.train->size())));
    limit(*texts.train, glue.max_train_samples);
  }
  for (TextDataset& data : texts.validation) limit(data, glue.max_eval_samples);
  for (TextDataset& data : texts.test) limit(data, glue.max_predict_samples);
}

}  // namespace

std::string where(const TextDataset& data) {
  if (data.columns.texts.empty()) return data.origin;
  return fmt::format("{}, texts in {}", data.origin, fmt::join(data.columns.texts, " and "));
}

Texts read_texts(TextScript script, const GlueArguments& glue, const TrainingArguments& training,
                 const ModelConfig& config, const HubSettings& hub, ScriptRun& run) {
  Texts texts =
      glue.task_name ? read_task(glue, training, hub) : read_files(script, glue, training, config, hub, run);
  say_files(texts, run);
  check_labels(texts, run);
  adopt_label_order(run, config, texts);
  choose_rows(glue, texts);
  return texts;
}

}  // namespace lathe
