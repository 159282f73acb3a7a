// lathe glue: what run_glue.py does.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lathe/app/commands/script_run.h"
#include "lathe/core/environment.h"
#include "lathe/data/dataset.h"
#include "lathe/data/hub_data.h"
#include "lathe/io/json_file.h"
#include "lathe/report/label_findings.h"

namespace lathe {
namespace {

/// Training, validation and test texts with one set of labels.
struct Texts {
  const GlueTask* task = nullptr;  ///< null: the user's own files
  LabelSet labels;
  std::optional<TextDataset> train;
  std::vector<TextDataset> validation, test;  ///< MNLI has two of each
};

void truncate(TextDataset& data, const std::optional<int64_t>& limit) {
  if (limit) data.truncate(static_cast<size_t>(*limit));
}

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
         std::find(names->begin(), names->end(), architecture(config, Problem::kSingleLabel)) != names->end();
}

/// Labels of a model that was fine-tuned before; none for a bare encoder.
LabelSet labels_of(const ModelConfig& config) {
  LabelSet set;
  if (!names_labels(config) && !is_classifier(config)) return set;
  const Problem problem = saved_problem(config);
  set.names = config_labels(config);
  if (problem == Problem::kRegression) set = {LabelKind::kRegression, {}};
  if (problem == Problem::kMultiLabel) set.kind = LabelKind::kMultiLabel;
  return set;
}

/// Own files, or those of a data set on the Hub, by split.
SplitFiles own_files(const GlueArguments& glue, const TrainingArguments& training, const HubSettings& hub) {
  if (glue.dataset_name)
    return fetch_splits(real_file_system(),
                        {*glue.dataset_name, glue.dataset_config_name, glue.cache_dir.value_or("")},
                        splits_for(training, false), hub);
  SplitFiles files;
  if (glue.train_file) files["train"] = {*glue.train_file};
  if (glue.validation_file) files["validation"] = {*glue.validation_file};
  if (glue.test_file) files["test"] = {*glue.test_file};
  return files;
}

Texts read_files(const GlueArguments& glue, const TrainingArguments& training, const ModelConfig& config,
                 const HubSettings& hub) {
  Texts texts;
  SplitFiles files = own_files(glue, training, hub);
  std::optional<LabelSet> known;
  std::vector<std::string> text_columns;
  if (files.contains("train")) {
    TextDataset train = read_own_files(files["train"]);
    known = train.label_set;
    text_columns = train.text_columns;
    if (training.do_train) texts.train = std::move(train);
  } else if (const LabelSet saved = labels_of(config); saved.num_labels() > 0) {
    known = saved;
  }
  const auto read = [&](const std::vector<std::string>& paths) {
    TextDataset data = read_own_files(paths, known ? &*known : nullptr, text_columns);
    if (!known) known = data.label_set;
    text_columns = data.text_columns;
    return data;
  };
  if (files.contains("validation") && training.do_eval) texts.validation.push_back(read(files["validation"]));
  if (files.contains("test") && training.do_predict) texts.test.push_back(read(files["test"]));
  if (known) texts.labels = *known;
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
  const auto ids = texts.labels.ids();
  std::vector<int32_t> renumbered;
  for (const std::string& name : before.names) renumbered.push_back(ids.at(name));
  const auto renumber = [&](TextDataset& data) {
    for (int32_t& label : data.labels)
      if (label >= 0) label = renumbered[static_cast<size_t>(label)];
    data.label_set = texts.labels;
  };
  if (texts.train) renumber(*texts.train);
  for (TextDataset& data : texts.validation) renumber(data);
  for (TextDataset& data : texts.test) renumber(data);
}

HeadOptions head_of(const LabelSet& labels, bool ignore_mismatched_sizes) {
  HeadOptions head;
  head.ignore_mismatched_sizes = ignore_mismatched_sizes;
  head.labels = labels.names;
  if (labels.kind == LabelKind::kRegression)
    head = {Problem::kRegression, {"LABEL_0"}, ignore_mismatched_sizes};
  if (labels.kind == LabelKind::kMultiLabel) head.problem = Problem::kMultiLabel;
  return head;
}

/// Micro F1 over all labels of all rows, a label counting as predicted above 0.
double multi_label_f1(const Predictions& p, const std::vector<float>& targets) {
  double both = 0, either = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    const bool predicted = p.logits[i] > 0, wanted = targets[i] > 0.5f;
    both += predicted && wanted;
    either += static_cast<double>(predicted) + static_cast<double>(wanted);
  }
  return either == 0 ? 0 : 2 * both / either;
}

MetricValues metrics_of(const Texts& texts, const TokenizedDataset& data, const Predictions& p) {
  switch (texts.labels.kind) {
    case LabelKind::kRegression:
      if (texts.task != nullptr) return glue_metrics(*texts.task, p.logits, data.targets);
      return {{"mse", mean_squared_error(p.logits, data.targets)}};
    case LabelKind::kMultiLabel:
      return {{"f1", multi_label_f1(p, data.targets)}};
    case LabelKind::kClasses:
      break;
  }
  const std::vector<int32_t> classes = best_classes(p);
  if (texts.task != nullptr) return glue_metrics(*texts.task, classes, data.labels);
  return {{"accuracy", accuracy(classes, data.labels)}};
}

/// The names of what an evaluation gives: the loss, and what metrics_of does.
std::vector<std::string> metric_names(const Texts& texts) {
  if (!texts.validation.empty() && !texts.validation[0].labelled) return {};
  if (texts.task == nullptr) {
    const LabelKind kind = texts.labels.kind;
    return {"loss", kind == LabelKind::kRegression   ? "mse"
                    : kind == LabelKind::kMultiLabel ? "f1"
                                                     : "accuracy"};
  }
  std::vector<std::string> names = texts.task->metrics;
  if (names.size() > 1) names.emplace_back("combined_score");
  names.insert(names.begin(), "loss");
  return names;
}

class Glue {
 public:
  Glue(Terminal& terminal, CommandLine<GlueArguments>& line, RunFacts facts,
       std::shared_ptr<ProcessGroup> group)
      : glue_(line.script),
        training_(line.training),
        run_(terminal, line.training, std::move(facts), std::move(group)) {}

  int run() {
    const std::string resume_from = run_.prepare_output(run_inputs(glue_));
    Backend& backend = run_.open_device();
    FileSystem& fs = real_file_system();
    const HubSettings hub = run_.hub(glue_.token);
    const ModelFolders folders = fetch_folders(glue_, hub);
    const ModelConfig config = read_model_config(fs, folders.config);
    Texts texts =
        glue_.task_name ? read_task(glue_, training_, hub) : read_files(glue_, training_, config, hub);
    say_files(texts);
    check_labels(texts);
    if (texts.train) run_.learns_from(texts.train->text_columns, texts.train->has_pairs());
    adopt_label_order(run_, config, texts);
    AutoModel model = from_pretrained(fs, folders, head_of(texts.labels, glue_.ignore_mismatched_sizes));
    run_.check_metric(metric_names(texts));
    tokenize(texts, model);
    run_.check_ranks({{"validation data", summary(validation_)}, {"test data", summary(test_)}});
    TrainerHooks hooks = run_.hooks();
    hooks.compute_metrics = [&](const TokenizedDataset& data, const Predictions& p) {
      for (size_t i = 0; i < validation_.size() && run_.wants_findings(); ++i)
        if (&data == &validation_[i]) show_findings(texts.labels, texts.validation[i], data, p);
      return metrics_of(texts, data, p);
    };
    Trainer trainer(backend, model, training_, train_ ? &*train_ : nullptr,
                    validation_.empty() ? nullptr : &validation_[0], hooks);
    trainer.pad_to(glue_.pad_to_max_length ? static_cast<int>(glue_.max_seq_length) : 0);
    trainer.call(glue_.model_name_or_path, called(texts.train));
    if (!training_.do_train || resume_from.empty()) say_load_report(run_, trainer, model);
    run_.carry_out([&] {
      if (training_.do_train) run_.train(trainer, resume_from, train_->size());
      if (training_.do_eval) evaluate(trainer);
      if (training_.do_predict) predict(trainer, texts);
      if (training_.do_train) run_.write_card(trainer, card_facts());
    });
    const TextDataset* shown = texts.validation.empty() ? nullptr : &texts.validation[0];
    if (shown == nullptr && texts.train) shown = &*texts.train;
    run_.say_results(shown == nullptr ? "" : example_of(*shown));
    return 0;
  }

 private:
  /// As run_glue.py gives them to create_model_card.
  CardFacts card_facts() const {
    CardFacts facts{.base_model = glue_.model_name_or_path,
                    .task = "text-classification",
                    .task_name = "Text Classification"};
    if (!glue_.task_name) return facts;
    std::string upper = *glue_.task_name;
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](unsigned char c) { return std::toupper(c); });
    facts.language = "en";
    facts.dataset_tag = "glue";
    facts.dataset_args = *glue_.task_name;
    facts.dataset = "GLUE " + upper;
    return facts;
  }

  void show_findings(const LabelSet& labels, const TextDataset& texts, const TokenizedDataset& data,
                     const Predictions& p) {
    run_.show(label_findings(
        labels, texts.origin, data, p,
        [&](size_t i) {
          return texts.has_pairs() ? texts.first[i] + " | " + texts.second[i] : texts.first[i];
        },
        train_ ? &*train_ : nullptr));
  }

  static std::string columns_of(const TextDataset& data) {
    if (data.text_columns.empty()) return "";
    return fmt::format(", texts in {}", fmt::join(data.text_columns, " and "));
  }

  /// What messages call the training data: where they are, and what is read of them.
  std::string called(const std::optional<TextDataset>& train) const {
    if (!train) return "";
    return fmt::format(
        "{}{}{}, {} tokens at most{}", glue_.task_name ? *glue_.task_name + ", " : "", train->origin,
        columns_of(*train), glue_.max_seq_length,
        glue_.max_train_samples ? fmt::format(", the first {} rows", *glue_.max_train_samples) : "");
  }

  void say_files(const Texts& texts) {
    if (texts.train)
      run_.say(LogLevel::kInfo, "training data: " + texts.train->origin + columns_of(*texts.train));
    for (const TextDataset& data : texts.validation)
      run_.say(LogLevel::kInfo, "validation data: " + data.origin);
    for (const TextDataset& data : texts.test) run_.say(LogLevel::kInfo, "test data: " + data.origin);
    if (texts.train) say_empty_texts(*texts.train);
    for (const auto* split : {&texts.validation, &texts.test})
      for (const TextDataset& data : *split) say_empty_texts(data);
  }

  /// Every text is there; an empty cell may be one or a gap.
  void say_empty_texts(const TextDataset& data) {
    if (data.empty_texts.count > 0)
      run_.say(LogLevel::kWarning,
               fmt::format("{}: cells without text: {}, the first at {}; they are taken for empty texts",
                           data.origin, data.empty_texts.count, data.first_empty_text));
  }

  /// Of a ClassLabel with -1 in some rows those that have a class are learnt from and scored.
  void leave_out_unclassified(TextDataset& data) {
    if (data.unclassified == 0 || !data.labelled) return;
    run_.say(LogLevel::kWarning,
             fmt::format("{}: rows without a label (-1 of a ClassLabel): {} of {}; they are left out",
                         data.origin, data.unclassified, data.size()));
    data.keep_labelled();
  }

  /// Every row to learn from has a label; of a file to evaluate all have, or none.
  void check_labels(Texts& texts) {
    const auto refuse = [](const TextDataset& data, const char* wanted) {
      fail(ErrorCode::kInvalidData, "{}: found no label, expected {}: give it one, or leave the row out",
           data.unlabelled_row, wanted);
    };
    if (texts.train && !texts.train->unlabelled_row.empty())
      refuse(*texts.train, "one in every row of a file to learn from");
    if (texts.train) leave_out_unclassified(*texts.train);
    for (TextDataset& data : texts.validation) {
      if (!data.labelled)
        run_.say(LogLevel::kWarning,
                 data.origin + " has no labels: no loss and no metrics of it are reported");
      else if (!data.unlabelled_row.empty())
        refuse(data, "one as in the other rows");
      leave_out_unclassified(data);
    }
  }

  void tokenize(Texts& texts, const AutoModel& model) {
    const Tokenizer& tokenizer = *model.tokenizer;
    if (tokenizer.pads_left() && !model.config.modern.mean_pooling)  // its mean leaves padding out
      fail(
          ErrorCode::kUnsupported,
          "tokenizer_config.json: padding_side: found left, with which a model of run_glue classifies by the "
          "padding in front of a text; Lathe needs right, which is the default");
    run_.bound_length(glue_.max_seq_length, model);
    const int length = static_cast<int>(glue_.max_seq_length);
    ThreadPool pool(static_cast<int>(training_.threads));
    if (texts.train) {
      truncate(*texts.train, glue_.max_train_samples);
      train_ = tokenize_dataset(*texts.train, tokenizer, length, pool);
    }
    for (TextDataset& data : texts.validation) {
      truncate(data, glue_.max_eval_samples);
      validation_.push_back(tokenize_dataset(data, tokenizer, length, pool));
    }
    for (TextDataset& data : texts.test) {
      truncate(data, glue_.max_predict_samples);
      test_.push_back(tokenize_dataset(data, tokenizer, length, pool));
      test_.back().labels.clear();  // to be predicted, even where they are known
      test_.back().targets.clear();
    }
  }

  /// MNLI's second set goes into the same file, its keys suffixed _mm.
  void evaluate(Trainer& trainer) {
    nlohmann::json combined;
    for (size_t i = 0; i < validation_.size(); ++i) {
      nlohmann::json metrics = run_.evaluate(trainer, validation_[i], validation_[i].size());
      if (i > 0) {
        nlohmann::json renamed;
        for (const auto& [key, value] : metrics.items()) renamed[key + "_mm"] = value;
        metrics = renamed;
      }
      combined.update(metrics);
      run_.report("eval", metrics, combined);
    }
  }

  void predict(Trainer& trainer, const Texts& texts) {
    for (size_t i = 0; i < test_.size(); ++i) {
      const Predictions p = trainer.predict(test_[i]);
      if (evaluation_quantization(training_) != nn::Quantization::kNone)
        run_.say(LogLevel::kInfo, trainer.compare(p, trainer.predict(test_[i], nn::Quantization::kNone)));
      std::string content = "index\tprediction\n";
      for (size_t row = 0; row < static_cast<size_t>(test_[i].size()); ++row)
        content += fmt::format("{}\t{}\n", row, prediction_text(texts.labels, p, row));
      const std::string task = glue_.task_name.value_or("None") + (i > 0 ? "-mm" : "");
      run_.write_predictions("predict_results_" + task + ".txt", content);
    }
  }

  GlueArguments& glue_;
  TrainingArguments& training_;
  ScriptRun run_;
  std::optional<TokenizedDataset> train_;
  std::vector<TokenizedDataset> validation_, test_;
};

}  // namespace

Command glue_command() {
  return script_command<Glue, GlueArguments>("glue", "fine-tune and evaluate a classifier, as run_glue.py");
}

}  // namespace lathe
