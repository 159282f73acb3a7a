// lathe rerank: what CrossEncoderTrainer of sentence-transformers does.
#include <fmt/format.h>

#include <algorithm>

#include "lathe/app/commands/data_block.h"
#include "lathe/app/commands/script_run.h"
#include "lathe/data/hub_data.h"
#include "lathe/data/retrieval/pair_table.h"
#include "lathe/report/label_findings.h"
#include "lathe/text/text.h"
#include "lathe/train/sentence/pair_task.h"

namespace lathe {
namespace {

/// Pairs of one split.
struct PairPart {
  TextDataset texts;
  TokenizedDataset samples;
  PairEvaluation evaluation;
};

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
    task_ = PairTask(rerank_.loss, read_config(real_file_system(), folders));
    read_data(hub);
    std::vector<std::string> metrics = eval_.evaluation.metric_names();
    metrics.insert(metrics.begin(), "loss");
    run_.check_metric(metrics);
    if (training_.do_train) run_.learns_from(text_columns_, true);
    AutoModel model =
        load_model(folders, task_.head(rerank_.ignore_mismatched_sizes), rerank_, rerank_.model_name_or_path);
    check_padding(model, "a cross-encoder");
    model.cross_encoder = task_.settings_of(model, folders.config, rerank_.activation_fn);
    make_samples(model);
    run_.check_ranks(
        {{"validation pairs", summary({&eval_.samples, 1})}, {"test pairs", summary({&test_.samples, 1})}});
    Trainer trainer(backend, model, training_, training_.do_train ? &train_.samples : nullptr,
                    training_.do_eval ? &eval_.samples : nullptr, hooks(model));
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
    // Of the training data, which come first.
    if (training_.do_train && labels_needed && text_columns_.empty()) task_.learn_classes(pairs);
    task_.check_labels(pairs);
    if (text_columns_.empty()) text_columns_ = {pairs.first_column, pairs.second_column};
    return part_of(std::move(pairs), what);
  }

  PairPart part_of(PairTable pairs, const char* what) {
    PairPart part{.texts = {}, .samples = {}, .evaluation = PairEvaluation(pairs, task_)};
    if (part.evaluation.binary) {
      say_of_one_label(pairs, what);
      if (what != std::string_view("training")) say_of_queries(pairs, part.evaluation.groups, what);
    }
    part.texts = texts_of(std::move(pairs), task_);
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
    if (!part.evaluation.binary) return texts;
    texts.label_set = {.kind = LabelKind::kClasses, .names = {"0", "1"}};
    texts.labels.assign(part.evaluation.labels.begin(), part.evaluation.labels.end());
    return texts;
  }

  void say_pairs() {
    if (!training_.do_train) return;
    Texts all{.task = nullptr, .labels = {}, .train = as_counted(train_), .validation = {}, .test = {}};
    if (training_.do_eval) all.validation.push_back(as_counted(eval_));
    say_data(run_, all, train_.samples, task_.has_classes());
  }

  TrainerHooks hooks(const AutoModel& model) {
    TrainerHooks hooks = run_.hooks();
    hooks.compute_metrics = [this, &model](const TokenizedDataset& data, const Predictions& p) {
      const PairPart& part = &data == &test_.samples ? test_ : eval_;
      Predictions scores = p;
      scores.logits = pair_scores(model, p.logits);
      if (&part == &eval_ && run_.wants_findings()) run_.show(findings(data, scores));
      return part.evaluation.metrics(scores.logits);
    };
    return hooks;
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
    const std::vector<int32_t> classes = task_.has_classes() ? best_classes(p) : std::vector<int32_t>{};
    const std::vector<float> scores = pair_scores(trainer.auto_model(), p.logits);
    for (size_t i = 0; i < test_.texts.size(); ++i) {
      if (task_.has_classes())
        content += fmt::format("{}\t{}\n", i, classes[i]);
      else
        content += fmt::format("{}\t{}\n", i, scores[i]);
    }
    run_.write_predictions("predict_results.txt", content);
  }

  /// What messages call the training data: where they are, and what is read of them.
  std::string called() const {
    if (!training_.do_train) return "";
    return fmt::format(
        "{}, texts in '{}', {}, {} tokens at most{}", train_.texts.origin,
        fmt::join(text_columns_, "' and '"), task_.loss(), length_,
        rerank_.max_train_samples ? fmt::format(", the first {} rows", *rerank_.max_train_samples) : "");
  }

  /// As CrossEncoder's card has them.
  CardFacts card_facts() const {
    CardFacts facts{.base_model = rerank_.model_name_or_path,
                    .task = task_.has_classes() ? "text-classification" : "text-ranking",
                    .task_name = task_.has_classes() ? "Text Classification" : "Text Ranking",
                    .language = {},
                    .dataset = rerank_.dataset_name.value_or(""),
                    .dataset_tag = rerank_.dataset_name.value_or(""),
                    .dataset_args = rerank_.dataset_config_name.value_or("")};
    facts.library = "sentence-transformers";
    facts.pipeline_tag = facts.task;
    facts.tags = {"sentence-transformers", "cross-encoder"};
    if (!task_.has_classes()) facts.tags.emplace_back("reranker");
    facts.tags.push_back(fmt::format("dataset_size:{}", train_.samples.size()));
    facts.tags.push_back("loss:" + task_.loss());
    return facts;
  }

  RerankArguments& rerank_;
  TrainingArguments& training_;
  ScriptRun run_;
  PairTask task_;
  std::vector<std::string> text_columns_;  ///< of the first data that are read
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
