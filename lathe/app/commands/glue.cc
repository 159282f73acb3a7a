// lathe glue: what run_glue.py does.
#include "lathe/app/commands/glue.h"

#include <fmt/format.h>

#include <algorithm>

#include "lathe/app/commands/data_block.h"
#include "lathe/app/commands/script_texts.h"
#include "lathe/data/metrics.h"
#include "lathe/data/own/named_metric.h"
#include "lathe/report/label_findings.h"

namespace lathe {
namespace {

HeadOptions head_of(const LabelSet& labels, bool ignore_mismatched_sizes) {
  HeadOptions head;
  head.ignore_mismatched_sizes = ignore_mismatched_sizes;
  head.labels = labels.names;
  if (labels.kind == LabelKind::kRegression) head = {regression, {"LABEL_0"}, ignore_mismatched_sizes};
  if (labels.kind == LabelKind::kMultiLabel) head.task = multi_label;
  return head;
}

/// Whether each label of each row counts as predicted, above 0, or is there: 0 or 1.
std::vector<int32_t> are_above(const std::vector<float>& values, float bound) {
  std::vector<int32_t> above;
  for (const float value : values) above.push_back(value > bound);
  return above;
}

MetricValues metrics_of(const Texts& texts, const std::string& metric, const TokenizedDataset& data,
                        const Predictions& p) {
  const LabelKind kind = texts.labels.kind;
  const std::vector<float>& targets = data.tensors.floats("labels");
  const std::vector<int32_t>& labels = data.tensors.ints("labels");
  if (kind == LabelKind::kRegression && texts.task != nullptr)
    return glue_metrics(*texts.task, p.logits, targets);
  if (kind == LabelKind::kRegression) return {{metric, named_metric(metric, p.logits, targets)}};
  if (kind == LabelKind::kMultiLabel)
    return {{metric, named_metric(metric, are_above(p.logits, 0), are_above(targets, 0.5f))}};
  const std::vector<int32_t> classes = best_classes(p);
  if (texts.task != nullptr) return glue_metrics(*texts.task, classes, labels);
  return {{metric, named_metric(metric, classes, labels)}};
}

/// The metric of data that are no GLUE task.  Errors: kUsage for one that does not fit the labels.
std::string metric_of(const GlueArguments& glue, const LabelSet& labels) {
  const std::vector<std::string> choices = metric_choices(labels);
  const std::string metric = glue.metric_name.value_or(choices.front());
  if (!glue.task_name && std::find(choices.begin(), choices.end(), metric) == choices.end())
    fail(ErrorCode::kUsage, "--metric_name: found {}, expected one of {}, which fit {}", metric,
         fmt::join(choices, ", "),
         labels.kind == LabelKind::kRegression   ? "numbers"
         : labels.kind == LabelKind::kMultiLabel ? "several labels a row"
                                                 : fmt::format("{} classes", labels.names.size()));
  return metric;
}

/// The names of what an evaluation gives: the loss, and what metrics_of does.
std::vector<std::string> metric_names(const Texts& texts, const std::string& metric) {
  if (!texts.validation.empty() && !texts.validation[0].labelled) return {};
  if (texts.task == nullptr) return {"loss", metric};
  std::vector<std::string> names = texts.task->metrics;
  if (names.size() > 1) names.emplace_back("combined_score");
  names.insert(names.begin(), "loss");
  return names;
}

class Classifier {
 public:
  Classifier(TextScript script, Terminal& terminal, CommandLine<GlueArguments>& line, RunFacts facts,
             std::shared_ptr<ProcessGroup> group)
      : script_(script),
        glue_(line.script),
        training_(line.training),
        run_(terminal, line.training, std::move(facts), std::move(group)) {}

  int run() {
    const std::string resume_from = run_.prepare_output(run_inputs(glue_));
    Backend& backend = run_.open_device();
    FileSystem& fs = real_file_system();
    const HubSettings hub = run_.hub(glue_.token);
    const ModelFolders folders = fetch_folders(glue_, hub);
    const ModelConfig config = read_config(fs, folders);
    Texts texts = read_texts(script_, glue_, training_, config, hub, run_);
    const std::string metric = metric_of(glue_, texts.labels);
    if (texts.train) run_.learns_from(texts.train->columns.texts, texts.train->has_pairs());
    AutoModel model = load_model(folders, head_of(texts.labels, glue_.ignore_mismatched_sizes), glue_,
                                 glue_.model_name_or_path);
    run_.check_metric(metric_names(texts, metric));
    tokenize(texts, model);
    run_.check_ranks({{"validation data", summary(validation_)}, {"test data", summary(test_)}});
    TrainerHooks hooks = run_.hooks();
    hooks.compute_metrics = [&](const TokenizedDataset& data, const Predictions& p) {
      for (size_t i = 0; i < validation_.size() && run_.wants_findings(); ++i)
        if (&data == &validation_[i]) show_findings(texts.labels, texts.validation[i], data, p);
      return metrics_of(texts, metric, data, p);
    };
    Trainer trainer(backend, model, training_, train_ ? &*train_ : nullptr,
                    validation_.empty() ? nullptr : &validation_[0], hooks);
    trainer.pad_to(glue_.pad_to_max_length ? static_cast<int>(glue_.max_seq_length) : 0);
    trainer.call(glue_.model_name_or_path, called(texts.train));
    if (!training_.do_train || resume_from.empty()) say_load_report(run_, trainer, model);
    if (train_) say_data(run_, texts, *train_);
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

  /// What messages call the training data: where they are, and what is read of them.
  std::string called(const std::optional<TextDataset>& train) const {
    if (!train) return "";
    return fmt::format(
        "{}{}, {} tokens at most{}", glue_.task_name ? *glue_.task_name + ", " : "", where(*train),
        glue_.max_seq_length,
        glue_.max_train_samples ? fmt::format(", the first {} rows", *glue_.max_train_samples) : "");
  }

  void tokenize(const Texts& texts, const AutoModel& model) {
    const Tokenizer& tokenizer = *model.tokenizer;
    check_padding(model, "a model of run_glue");
    run_.bound_length(glue_.max_seq_length, model);
    const int length = static_cast<int>(glue_.max_seq_length);
    ThreadPool pool(static_cast<int>(training_.threads));
    if (texts.train) train_ = tokenize_dataset(*texts.train, tokenizer, length, pool);
    for (const TextDataset& data : texts.validation)
      validation_.push_back(tokenize_dataset(data, tokenizer, length, pool));
    for (const TextDataset& data : texts.test) {
      test_.push_back(tokenize_dataset(data, tokenizer, length, pool));
      test_.back().tensors.erase("labels");  // to be predicted, even where they are known
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
      const std::string task = "_" + glue_.task_name.value_or("None") + (i > 0 ? "-mm" : "");
      const bool named = script_ == TextScript::kRunGlue || glue_.task_name;
      run_.write_predictions("predict_results" + (named ? task : "") + ".txt", content);
    }
  }

  TextScript script_;
  GlueArguments& glue_;
  TrainingArguments& training_;
  ScriptRun run_;
  std::optional<TokenizedDataset> train_;
  std::vector<TokenizedDataset> validation_, test_;
};

}  // namespace

int run_classifier(TextScript script, Terminal& terminal, CommandLine<GlueArguments>& line, RunFacts facts,
                   std::shared_ptr<ProcessGroup> group) {
  return Classifier(script, terminal, line, std::move(facts), std::move(group)).run();
}

Command glue_command() {
  return script_command<ClassifierJob<TextScript::kRunGlue>, GlueArguments>(
      "glue", "run_glue", "fine-tune and evaluate a classifier",
      "lathe glue --model_name_or_path bert-base-cased --task_name mrpc \\\n"
      "      --do_train --do_eval --output_dir mrpc");
}

}  // namespace lathe
