#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/data/dataset.h"
#include "lathe/data/retrieval/similarity_evaluation.h"
#include "lathe/data/table.h"
#include "lathe/models/sentence/sentence_folder.h"
#include "lathe/report/label_findings.h"
#include "lathe/settings/argument_parser.h"
#include "lathe/train/sentence/embed_samples.h"
#include "lathe/train/sentence/embed_settings.h"
#include "lathe/train/sentence/pair_task.h"
#include "python/arguments.h"
#include "python/dataset.h"
#include "python/model.h"

namespace lathe {

/// Rows of texts, as JSON lines, and what messages call them.
struct TextRows {
  std::string json_lines, name;

  Table table() const { return parse_table(json_lines, TableFormat::kJsonLines, {}, name); }
};

/// Settings of `lathe embed` or `lathe rerank` from words of their command line, for a model.  Errors:
/// kUsage.
template <typename Script>
Script script_of(const std::string& model, const std::vector<std::string>& words) {
  Script script;
  script.model_name_or_path = model;
  parse_arguments(bind(script), words);
  check_fields(bind(script));
  return script;
}

/// What a SentenceTransformerTrainer learns: the model with its loss, and data sets of texts.  The loss is
/// that of the settings, else by the columns of the training data, or without them of the other ones.
struct SentenceTask : Model {
  SentenceTask(const std::string& name, const std::vector<std::string>& words, const Arguments& arguments,
               const std::optional<TextRows>& train_rows, const std::optional<TextRows>& eval_rows)
      : embed(script_of<EmbedArguments>(name, words)), training(arguments.values) {
    ModelFolders folders{name, name, name};
    find_modules(folders, embed);
    similarity = similarity_named(folders.modules->similarity);
    EmbedPart learnt, seen;
    if (train_rows) learnt.columns = columns_of(*train_rows, true);
    if (eval_rows) seen.columns = columns_of(*eval_rows, false);
    const TextColumns& columns = train_rows ? learnt.columns : seen.columns;
    loss = loss_of(embed, columns);
    if (train_rows) check_columns(loss, columns);
    std::vector<std::string> names = learnt.columns.names;
    names.insert(names.end(), seen.columns.names.begin(), seen.columns.names.end());
    check_prompts(embed, names);
    model = from_pretrained(real_file_system(), folders, {.made = text_similarity(loss)});
    check_widths(loss, model, name);
    if (train_rows) train = dataset_of(std::move(learnt), true);
    if (eval_rows) eval = dataset_of(std::move(seen), false);
  }

  /// For an evaluation.
  std::shared_ptr<Dataset> dataset(const TextRows& rows) const {
    return dataset_of({.columns = columns_of(rows, false), .samples = {}}, false);
  }

  EmbedArguments embed;
  TrainingArguments training;
  Similarity similarity = Similarity::kCosine;
  SimilarityLoss loss;
  std::shared_ptr<Dataset> train, eval;  ///< null: none

 private:
  TextColumns columns_of(const TextRows& rows, bool learns) const {
    const Table table = rows.table();
    return text_columns_of(table, column_rules(embed, table, learns));
  }

  std::shared_ptr<Dataset> dataset_of(EmbedPart part, bool learns) const {
    if (!learns) part.columns.reorder(order_of_evaluation(part.columns, embed, training));
    ThreadPool pool(static_cast<int>(training.threads));
    make_samples(part, embed, loss, model, learns, pool);
    auto out = std::make_shared<Dataset>();
    out->data = std::move(part.samples);
    const auto columns = std::make_shared<const TextColumns>(std::move(part.columns));
    const Similarity by = similarity;
    out->metrics = [columns, by](const Predictions& p) {
      return evaluation_metrics(*columns, {p.logits, p.columns}, by);
    };
    out->findings = [columns, by](const Predictions& p) {
      Findings found{.data = columns->origin, .labels = {}};
      found.similarities = similarity_findings(*columns, {p.logits, p.columns}, by);
      return found;
    };
    return out;
  }
};

/// A CrossEncoder: its model with the head of a loss, and data sets of pairs.
struct PairModel : Model {
  /// num_labels: 0 is as the model's folder says, of a new head one.  max_length: 0 is what the model takes.
  PairModel(const std::string& name, const std::vector<std::string>& words, int num_labels, int max_length,
            const std::string& revision, const std::string& cache_dir)
      : rerank(script_of<RerankArguments>(name, words)) {
    const std::string folder = fetched(name, revision, cache_dir, {true, true});
    task = PairTask(rerank.loss, read_model_config(real_file_system(), folder), num_labels);
    model = from_pretrained(real_file_system(), folder, task.head(rerank.ignore_mismatched_sizes));
    check_padding(model, "a cross-encoder");
    model.cross_encoder = task.settings_of(model, folder, rerank.activation_fn);
    length = longest_text(model);
    if (max_length > 0) length = std::min(length, max_length);
  }

  std::shared_ptr<Dataset> dataset(const TextRows& rows, bool labels_needed) const {
    const Table table = rows.table();
    PairTable pairs = pairs_of_table(table, {.texts = {}, .label = {}, .labels_needed = labels_needed});
    task.check_labels(pairs);
    const auto evaluation = std::make_shared<const PairEvaluation>(pairs, task);
    const TextDataset texts = texts_of(std::move(pairs), task);
    auto out = std::make_shared<Dataset>();
    ThreadPool pool;
    out->data = tokenize_dataset(texts, *model.tokenizer, length, pool);
    out->metrics = [evaluation, this](const Predictions& p) {
      return evaluation->metrics(pair_scores(model, p.logits));
    };
    return out;
  }

  /// Of logits: after the activation, as predict gives them.
  std::vector<float> scores(std::span<const float> logits) const { return pair_scores(model, logits); }

  RerankArguments rerank;
  PairTask task;
  int length = 0;  ///< of a pair, in tokens
};

}  // namespace lathe
