// lathe rerank: what CrossEncoderTrainer of sentence-transformers does.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lathe/app/commands/data_block.h"
#include "lathe/app/commands/script_run.h"
#include "lathe/data/hub_data.h"
#include "lathe/data/retrieval/pair_metrics.h"
#include "lathe/data/retrieval/pair_table.h"
#include "lathe/data/retrieval/ranking_metrics.h"
#include "lathe/models/sentence/sentence_folder.h"
#include "lathe/report/label_findings.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

constexpr const char* kBce = "BinaryCrossEntropyLoss";
constexpr const char* kMse = "MSELoss";
constexpr const char* kCe = "CrossEntropyLoss";

/// Pairs of one split.
struct PairPart {
  TextDataset texts;
  TokenizedDataset samples;
  std::vector<double> labels;
  std::vector<QueryGroup> groups;  ///< of queries with several documents
  bool binary = false;             ///< each label is 0 or 1
};

/// Classes that the labels name, from 0.
int64_t classes_of(const std::vector<double>& labels) {
  return labels.empty() ? 0 : static_cast<int64_t>(*std::ranges::max_element(labels)) + 1;
}

class Rerank {
 public:
  Rerank(Terminal& terminal, CommandLine<RerankArguments>& line, RunFacts facts,
         std::shared_ptr<ProcessGroup> group)
      : rerank_(line.script),
        training_(line.training),
        run_(terminal, line.training, std::move(facts), std::move(group)) {}

  int run() {
    const std::string resume_from = run_.prepare_output(run_inputs(rerank_));
    Backend& backend = run_.open_device();
    const HubSettings hub = run_.hub(rerank_.token);
    const ModelFolders folders = fetch_folders(rerank_, hub);
    choose_loss(read_config(real_file_system(), folders));
    read_data(hub);
    run_.check_metric(metric_names());
    if (training_.do_train) run_.learns_from(text_columns_, true);
    AutoModel model = load_model(folders, head(), rerank_, rerank_.model_name_or_path);
    check_padding(model, "a cross-encoder");
    choose_activation(model, folders.config);
    make_samples(model);
    run_.check_ranks(
        {{"validation pairs", summary({&eval_.samples, 1})}, {"test pairs", summary({&test_.samples, 1})}});
    Trainer trainer(backend, model, training_, training_.do_train ? &train_.samples : nullptr,
                    training_.do_eval ? &eval_.samples : nullptr, hooks());
    trainer.pad_to(rerank_.pad_to_max_length ? static_cast<int>(length_) : 0);
    trainer.call(rerank_.model_name_or_path, called());
    if (!training_.do_train || resume_from.empty()) say_load_report(run_, trainer, model);
    say_pairs();
    run_.carry_out([&] {
      if (training_.do_train) run_.train(trainer, resume_from, train_.samples.size());
      if (training_.do_eval) evaluate(trainer);
      if (training_.do_predict) predict(trainer);
      if (training_.do_train) run_.write_card(trainer, card_facts());
    });
    run_.say_results(example_of(training_.do_train ? train_.texts : eval_.texts));
    return 0;
  }

 private:
  bool has_classes() const { return loss_ == kCe; }

  /// And the names of the labels that the model has, if it is a classifier.
  void choose_loss(const ModelConfig& config) {
    const auto names = config.json->find("architectures");
    const std::string its_class = architecture(config, HeadKind::kSequenceClassification);
    if (names != config.json->end() && names->is_array() &&
        std::find(names->begin(), names->end(), its_class) != names->end())
      labels_ = config_labels(config);
    loss_ = rerank_.loss.value_or(labels_.size() > 1 ? kCe : kBce);
  }

  HeadOptions head() const {
    HeadOptions head{pair_score, labels_, rerank_.ignore_mismatched_sizes};
    if (loss_ == kMse) head.task = pair_value;
    if (has_classes()) head.task = pair_class;
    return head;
  }

  SplitFiles find_files(const HubSettings& hub) const {
    SplitFiles files;
    if (rerank_.train_file) files["train"] = {*rerank_.train_file};
    if (rerank_.validation_file) files["validation"] = {*rerank_.validation_file};
    if (rerank_.test_file) files["test"] = {*rerank_.test_file};
    if (!rerank_.dataset_name) return files;
    std::vector<std::string> wanted;
    if (training_.do_train) wanted.emplace_back("train");
    if (training_.do_eval) wanted.emplace_back("validation");
    if (training_.do_predict) wanted.emplace_back("test");
    if (wanted.empty()) return {};
    return fetch_splits(
        real_file_system(),
        HubDataset{*rerank_.dataset_name, rerank_.dataset_config_name, rerank_.cache_dir.value_or("")},
        wanted, hub);
  }

  /// Of the loss.
  void check_labels(const PairTable& pairs, int64_t classes) const {
    for (size_t i = 0; i < pairs.labels.size(); ++i) {
      const double label = pairs.labels[i];
      const bool fits = loss_ == kMse || (has_classes() ? label >= 0 && label == std::floor(label) &&
                                                              label < static_cast<double>(classes)
                                                        : label >= 0 && label <= 1);
      if (fits) continue;
      const std::string found =
          fmt::format("{}: column '{}': found {}", pairs.place(i), pairs.label_column, label);
      if (has_classes())
        fail(ErrorCode::kInvalidData,
             "{}, expected the number of a class, 0 to {}: mend or leave out the row, or train scores with "
             "--loss {} (0 to 1) or {}",
             found, classes - 1, kBce, kMse);
      fail(ErrorCode::kInvalidData,
           "{}, expected 0 to 1, as {} takes it: bring the scores to this range, as score / 5 does with 0 to "
           "5, or give --loss {} (scores of any size) or {} (classes)",
           found, kBce, kMse, kCe);
    }
  }

  void check_class_count(int64_t classes, const std::string& origin) const {
    if (has_classes() && classes < 2)
      fail(ErrorCode::kInvalidData,
           "{}: found the class 0 in every row, expected two classes or more: add pairs of the others, or "
           "give "
           "--loss {}",
           origin, kBce);
  }

  PairPart read(const std::vector<std::string>& paths, const char* what, const std::optional<int64_t>& limit,
                bool labels_needed = true) {
    const std::vector<std::string> names = split_at_commas(rerank_.text_column_names.value_or(""));
    PairTable pairs = read_pairs(paths, {rerank_.text_column_names ? names : std::vector<std::string>{},
                                         rerank_.label_column_name, labels_needed});
    run_.say(
        LogLevel::kInfo,
        fmt::format("{} data: {}; pairs of '{}' and '{}'{}", what, paths.front(), pairs.first_column,
                    pairs.second_column,
                    pairs.label_column.empty() ? "" : fmt::format(", labels in '{}'", pairs.label_column)));
    if (limit) pairs.truncate(static_cast<size_t>(*limit));
    if (has_classes() && training_.do_train && labels_needed && text_columns_.empty()) {
      // Of the training data, which come first.
      const int64_t classes = std::max<int64_t>(classes_of(pairs.labels), std::ssize(labels_));
      check_class_count(classes, pairs.origin);
      for (int64_t i = std::ssize(labels_); i < std::max<int64_t>(classes, 0); ++i)
        labels_.push_back(fmt::format("LABEL_{}", i));
    }
    if (!has_classes() && labels_.size() != 1) labels_ = {"LABEL_0"};
    check_labels(pairs, std::ssize(labels_));
    if (text_columns_.empty()) text_columns_ = {pairs.first_column, pairs.second_column};
    return part_of(std::move(pairs), what);
  }

  PairPart part_of(PairTable pairs, const char* what) {
    PairPart part{.texts = {.origin = pairs.origin, .first = {}},
                  .samples = {},
                  .labels = pairs.labels,
                  .groups = {},
                  .binary = !has_classes() && pairs.has_binary_labels()};
    if (part.binary) {
      part.groups = groups_by_query(pairs);
      say_of_one_label(pairs, what);
      if (what != std::string_view("training")) say_of_queries(pairs, part.groups, what);
    }
    TextDataset& texts = part.texts;
    texts.columns.texts = {pairs.first_column, pairs.second_column};
    texts.label_set.kind = has_classes() ? LabelKind::kClasses : LabelKind::kRegression;
    if (has_classes()) texts.label_set.names = labels_;
    texts.labelled = !pairs.labels.empty();
    if (has_classes())
      texts.labels.assign(pairs.labels.begin(), pairs.labels.end());
    else
      texts.targets.assign(pairs.labels.begin(), pairs.labels.end());
    texts.first = std::move(pairs.first);
    texts.second = std::move(pairs.second);
    return part;
  }

  /// Of labels of 0 and 1.
  void say_of_one_label(const PairTable& pairs, const char* what) {
    if (std::ranges::count(pairs.labels, pairs.labels[0]) < std::ssize(pairs.labels)) return;
    run_.say(LogLevel::kWarning,
             fmt::format("{}: column '{}': found {} in all {} rows of the {} data, expected 0 and 1: nothing "
                         "tells what belongs together from what does not; add pairs with {}",
                         pairs.place(0), pairs.label_column, pairs.labels[0], pairs.size(), what,
                         1 - pairs.labels[0]));
  }

  /// Of queries with several documents, of which none is right.
  void say_of_queries(const PairTable& pairs, const std::vector<QueryGroup>& groups, const char* what) {
    const auto none = [](const QueryGroup& group) { return !group.has_positive; };
    const auto first = std::ranges::find_if(groups, none);
    if (first == groups.end()) return;
    const size_t pair = first->pairs[0];
    run_.say(LogLevel::kWarning,
             fmt::format("{}: the query '{}' has no document with the label 1, as {} of the {} queries with "
                         "several documents in the {} data; each counts 0 in map, mrr@10 and ndcg@10: label "
                         "one of its documents 1, or leave the query out",
                         pairs.place(pair), std::string(slice_code_points(pairs.first[pair], 0, 60)),
                         std::ranges::count_if(groups, none), groups.size(), what));
  }

  void read_data(const HubSettings& hub) {
    SplitFiles files = find_files(hub);
    if (training_.do_train) train_ = read(files["train"], "training", rerank_.max_train_samples);
    if (training_.do_eval) eval_ = read(files["validation"], "validation", rerank_.max_eval_samples);
    if (training_.do_predict) test_ = read(files["test"], "test", rerank_.max_predict_samples, false);
  }

  std::vector<std::string> metric_names() const {
    std::vector<std::string> names = {"loss"};
    const auto add = [&](const std::vector<std::string>& more) {
      names.insert(names.end(), more.begin(), more.end());
    };
    if (has_classes()) {
      add({"f1_macro", "f1_micro", "f1_weighted"});
    } else if (eval_.binary) {
      add({"accuracy", "accuracy_threshold", "f1", "f1_threshold", "precision", "recall",
           "average_precision"});
    } else {
      add({"pearson", "spearman"});
    }
    if (!eval_.groups.empty()) add({"map", "mrr@10", "ndcg@10"});
    return names;
  }

  /// What the folder says of the scores.
  void choose_activation(AutoModel& model, const std::string& folder) {
    FileSystem& fs = real_file_system();
    CrossEncoderFolder settings{
        .activation = loss_ == kBce ? "Sigmoid" : "Identity", .prompts = {}, .default_prompt_name = {}};
    if (!folder.empty() && is_cross_encoder_folder(fs, folder))
      settings = read_cross_encoder_folder(fs, folder, std::ssize(model.labels));
    if (rerank_.activation_fn) settings.activation = *rerank_.activation_fn;
    sigmoid_ = settings.activation == "Sigmoid";
    model.cross_encoder = std::make_shared<const CrossEncoderFolder>(std::move(settings));
  }

  void make_samples(const AutoModel& model) {
    length_ = rerank_.max_seq_length.value_or(longest_text(model));
    run_.bound_length(length_, model);
    ThreadPool pool(static_cast<int>(training_.threads));
    for (PairPart* part : {&train_, &eval_, &test_})
      if (part->texts.size() > 0)
        part->samples = tokenize_dataset(part->texts, *model.tokenizer, static_cast<int>(length_), pool);
  }

  /// Labels of 0 and 1 are counted, as those of classes are.
  static TextDataset as_counted(const PairPart& part) {
    TextDataset texts = part.texts;
    if (!part.binary) return texts;
    texts.label_set = {.kind = LabelKind::kClasses, .names = {"0", "1"}};
    texts.labels.assign(part.labels.begin(), part.labels.end());
    return texts;
  }

  void say_pairs() {
    if (!training_.do_train) return;
    Texts all{.task = nullptr, .labels = {}, .train = as_counted(train_), .validation = {}, .test = {}};
    if (training_.do_eval) all.validation.push_back(as_counted(eval_));
    say_data(run_, all, train_.samples, has_classes());
  }

  TrainerHooks hooks() {
    TrainerHooks hooks = run_.hooks();
    hooks.compute_metrics = [&](const TokenizedDataset& data, const Predictions& p) {
      const PairPart& part = &data == &test_.samples ? test_ : eval_;
      Predictions scores = p;
      if (sigmoid_ && !has_classes())
        for (float& x : scores.logits) x = 1 / (1 + std::exp(-x));
      if (&part == &eval_ && run_.wants_findings()) run_.show(findings(data, scores));
      return metrics(part, scores);
    };
    return hooks;
  }

  /// As the evaluators of CrossEncoder name them.
  MetricValues metrics(const PairPart& part, const Predictions& scores) const {
    if (has_classes()) return pair_class_metrics(scores.logits, part.texts.labels);
    MetricValues values;
    if (part.binary) {
      const std::vector<int32_t> labels(part.labels.begin(), part.labels.end());
      values = pair_score_metrics(scores.logits, labels);
    } else if (part.labels.size() > 1) {
      values = pair_correlation_metrics(scores.logits, part.labels);
    }
    if (part.groups.empty()) return values;
    std::vector<RankedList> lists;
    for (const QueryGroup& group : part.groups) {
      RankedList& list = lists.emplace_back();
      for (const size_t pair : group.pairs) {
        list.relevant.push_back(part.labels[pair] > 0);
        list.scores.push_back(scores.logits[pair]);
      }
    }
    for (auto& value : reranking_metrics(lists)) values.push_back(std::move(value));
    return values;
  }

  Findings findings(const TokenizedDataset& data, const Predictions& scores) const {
    const TextDataset& texts = eval_.texts;
    return label_findings(
        texts.label_set, texts.origin, data, scores,
        [&](size_t i) { return texts.first[i] + " | " + texts.second[i]; },
        training_.do_train ? &train_.samples : nullptr);
  }

  void evaluate(Trainer& trainer) {
    const nlohmann::json metrics = run_.evaluate(trainer, eval_.samples, eval_.samples.size());
    run_.report("eval", metrics, metrics);
  }

  /// The score or class of each pair, as run_glue.py writes its predictions.
  void predict(Trainer& trainer) {
    Predictions p;
    nlohmann::json metrics = trainer.test(test_.samples, "predict", &p);
    metrics["predict_samples"] = test_.samples.size();
    run_.report("predict", metrics, metrics);
    std::string content = "index\tprediction\n";
    const std::vector<int32_t> classes = has_classes() ? best_classes(p) : std::vector<int32_t>{};
    for (size_t i = 0; i < test_.texts.size(); ++i) {
      if (has_classes())
        content += fmt::format("{}\t{}\n", i, classes[i]);
      else
        content += fmt::format("{}\t{}\n", i, sigmoid_ ? 1 / (1 + std::exp(-p.logits[i])) : p.logits[i]);
    }
    run_.write_predictions("predict_results.txt", content);
  }

  /// What messages call the training data: where they are, and what is read of them.
  std::string called() const {
    if (!training_.do_train) return "";
    return fmt::format(
        "{}, texts in '{}', {}, {} tokens at most{}", train_.texts.origin,
        fmt::join(text_columns_, "' and '"), loss_, length_,
        rerank_.max_train_samples ? fmt::format(", the first {} rows", *rerank_.max_train_samples) : "");
  }

  /// As CrossEncoder's card has them.
  CardFacts card_facts() const {
    CardFacts facts{.base_model = rerank_.model_name_or_path,
                    .task = has_classes() ? "text-classification" : "text-ranking",
                    .task_name = has_classes() ? "Text Classification" : "Text Ranking",
                    .language = {},
                    .dataset = rerank_.dataset_name.value_or(""),
                    .dataset_tag = rerank_.dataset_name.value_or(""),
                    .dataset_args = rerank_.dataset_config_name.value_or("")};
    facts.library = "sentence-transformers";
    facts.pipeline_tag = facts.task;
    facts.tags = {"sentence-transformers", "cross-encoder"};
    if (!has_classes()) facts.tags.emplace_back("reranker");
    facts.tags.push_back(fmt::format("dataset_size:{}", train_.samples.size()));
    facts.tags.push_back("loss:" + loss_);
    return facts;
  }

  RerankArguments& rerank_;
  TrainingArguments& training_;
  ScriptRun run_;
  std::string loss_;
  std::vector<std::string> labels_;        ///< names, of the model
  std::vector<std::string> text_columns_;  ///< of the first data that are read
  bool sigmoid_ = false;
  PairPart train_, eval_, test_;
  int64_t length_ = 0;  ///< of a pair at most, in tokens
};

}  // namespace

Command rerank_command() {
  return script_command<Rerank, RerankArguments>(
      "rerank", "", "fine-tune and evaluate a cross-encoder of pairs, as CrossEncoderTrainer",
      "lathe rerank --model_name_or_path bert-base-cased --train_file pairs.jsonl \\\n"
      "      --validation_file dev.jsonl --do_train --do_eval --output_dir ranker");
}

}  // namespace lathe
