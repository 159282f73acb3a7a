// lathe swag: what run_swag.py does.
#include <fmt/format.h>

#include <algorithm>

#include "lathe/app/commands/data_block.h"
#include "lathe/app/commands/script_run.h"
#include "lathe/data/hub_data.h"
#include "lathe/data/own/choice_table.h"
#include "lathe/report/label_findings.h"

namespace lathe {
namespace {

struct ChoicePart {
  ChoiceTable table;
  TokenizedDataset samples;
};

/// Scores [samples, most endings], as those of classes; endings that a sample lacks cannot be chosen.
Predictions by_sample(const Predictions& p, size_t most) {
  constexpr float kNever = -1e30f;
  Predictions out{.columns = static_cast<int64_t>(most)};
  for (size_t i = 0; i + 1 < p.begins.size(); ++i) {
    const auto begin = p.logits.begin() + p.begins[i], end = p.logits.begin() + p.begins[i + 1];
    out.logits.insert(out.logits.end(), begin, end);
    out.logits.resize((i + 1) * most, kNever);
  }
  return out;
}

/// As run_swag.py, in float32.
double accuracy(const std::vector<int32_t>& found, const std::vector<int32_t>& wanted) {
  int64_t right = 0;
  for (size_t i = 0; i < found.size(); ++i) right += found[i] == wanted[i];
  return static_cast<float>(right) / static_cast<float>(found.size());
}

class Swag {
 public:
  Swag(Terminal& terminal, CommandLine<SwagArguments>& line, RunFacts facts,
       std::shared_ptr<ProcessGroup> group)
      : swag_(line.script),
        training_(line.training),
        run_(terminal, line.training, std::move(facts), std::move(group)) {}

  int run() {
    const std::string resume_from = run_.prepare_output(run_inputs(swag_));
    Backend& backend = run_.open_device();
    const HubSettings hub = run_.hub(swag_.token);
    const ModelFolders folders = fetch_folders(swag_, hub);
    read_data(hub);
    run_.check_metric({"loss", "accuracy"});
    if (training_.do_train) run_.learns_from(text_columns(), false);
    AutoModel model = load_model(folders, {multiple_choice, {}, swag_.ignore_mismatched_sizes}, swag_,
                                 swag_.model_name_or_path);
    make_samples(model);
    run_.check_ranks(
        {{"validation rows", summary({&eval_.samples, 1})}, {"test rows", summary({&test_.samples, 1})}});
    TrainerHooks hooks = run_.hooks();
    hooks.compute_metrics = [&](const TokenizedDataset& data, const Predictions& p) {
      if (&data == &eval_.samples && run_.wants_findings()) run_.show(findings(p));
      return MetricValues{{"accuracy", accuracy(best_rows(p), data.tensors.ints("labels"))}};
    };
    Trainer trainer(backend, model, training_, training_.do_train ? &train_.samples : nullptr,
                    training_.do_eval ? &eval_.samples : nullptr, hooks);
    trainer.pad_to(swag_.pad_to_max_length ? static_cast<int>(length_) : 0);
    trainer.call(swag_.model_name_or_path, called());
    if (!training_.do_train || resume_from.empty()) say_load_report(run_, trainer, model);
    if (training_.do_train) say_choices(run_, train_.table, train_.samples);
    run_.carry_out([&] {
      if (training_.do_train) run_.train(trainer, resume_from, train_.samples.size());
      if (training_.do_eval) evaluate(trainer);
      if (training_.do_predict) predict(trainer);
      if (training_.do_train) run_.write_card(trainer, card_facts());
    });
    run_.say_results(example());
    return 0;
  }

 private:
  /// The context, the question if there is one, the endings; as lathe predict finds them again.
  std::vector<std::string> text_columns() const {
    std::vector<std::string> columns{train_.table.context_column};
    if (!train_.table.question_column.empty()) columns.push_back(train_.table.question_column);
    columns.push_back(train_.table.endings_column);
    return columns;
  }

  /// Whether the data are SWAG, which the script takes if it is given nothing else.
  bool is_swag() const {
    return !swag_.dataset_name && !swag_.train_file && !swag_.validation_file && !swag_.test_file;
  }

  /// As run_swag.py gives them to create_model_card; it calls all data SWAG.
  CardFacts card_facts() const {
    CardFacts facts{.base_model = swag_.model_name_or_path,
                    .task = "multiple-choice",
                    .task_name = "Multiple Choice",
                    .language = {},
                    .dataset = swag_.dataset_name.value_or(""),
                    .dataset_tag = swag_.dataset_name.value_or(""),
                    .dataset_args = swag_.dataset_config_name.value_or("")};
    if (!is_swag()) return facts;
    facts.language = "en";
    facts.dataset = "SWAG";
    facts.dataset_tag = "swag";
    facts.dataset_args = "regular";
    return facts;
  }

  /// What messages call the training data: where they are, and what is read of them.
  std::string called() const {
    const ChoiceTable& train = train_.table;
    return fmt::format(
        "{}, contexts in '{}', {}endings in '{}', labels in '{}', {} tokens at most{}", train.origin,
        train.context_column,
        train.question_column.empty() ? "" : fmt::format("questions in '{}', ", train.question_column),
        train.endings_column, train.label_column, length_,
        swag_.max_train_samples ? fmt::format(", the first {} rows", *swag_.max_train_samples) : "");
  }

  SplitFiles find_files(const HubSettings& hub) const {
    SplitFiles files;
    if (swag_.train_file) files["train"] = {*swag_.train_file};
    if (swag_.validation_file) files["validation"] = {*swag_.validation_file};
    if (swag_.test_file) files["test"] = {*swag_.test_file};
    if (!swag_.dataset_name && !is_swag()) return files;
    std::vector<std::string> wanted;
    if (training_.do_train) wanted.emplace_back("train");
    if (training_.do_eval) wanted.emplace_back("validation");
    if (training_.do_predict) wanted.emplace_back("test");
    if (wanted.empty()) return {};
    HubDataset dataset{"allenai/swag", "regular", swag_.cache_dir.value_or("")};
    if (swag_.dataset_name) dataset.name = *swag_.dataset_name, dataset.config = swag_.dataset_config_name;
    return fetch_splits(real_file_system(), dataset, wanted, hub);
  }

  ChoiceTable read(const std::vector<std::string>& paths, const char* what,
                   const std::optional<int64_t>& limit, bool labels_needed = true) {
    ChoiceTable table =
        read_choices(paths, {swag_.context_column_name, swag_.question_column_name, swag_.endings_column_name,
                             swag_.label_column_name, labels_needed});
    run_.say(LogLevel::kInfo, fmt::format("{} data: {}", what, paths.front()));
    if (limit) table.truncate(static_cast<size_t>(*limit));
    return table;
  }

  void read_data(const HubSettings& hub) {
    SplitFiles files = find_files(hub);
    if (training_.do_train) train_.table = read(files["train"], "training", swag_.max_train_samples);
    if (training_.do_eval) eval_.table = read(files["validation"], "validation", swag_.max_eval_samples);
    if (training_.do_predict) test_.table = read(files["test"], "test", swag_.max_predict_samples, false);
  }

  void make_samples(const AutoModel& model) {
    length_ = run_.row_length(swag_.max_seq_length, model);
    ThreadPool pool(static_cast<int>(training_.threads));
    for (ChoicePart* part : {&train_, &eval_, &test_})
      if (part->table.size() > 0)
        part->samples = tokenize_choices(part->table, *model.tokenizer, static_cast<int>(length_), pool);
  }

  /// Of the validation data.
  Findings findings(const Predictions& p) const {
    size_t most = 0;
    for (const ChoicePart* part : {&train_, &eval_})
      for (const auto& endings : part->table.endings) most = std::max(most, endings.size());
    LabelSet numbers{.kind = LabelKind::kClasses};
    for (size_t i = 0; i < most; ++i) numbers.names.push_back(std::to_string(i));
    const auto text = [&](size_t i) {
      std::string all = eval_.table.contexts[i];
      for (size_t ending = 0; ending < eval_.table.endings[i].size(); ++ending)
        all += fmt::format(" | {}: {}", ending, eval_.table.second_text(i, ending));
      return all;
    };
    return label_findings(numbers, eval_.table.origin, eval_.samples, by_sample(p, most), text,
                          training_.do_train ? &train_.samples : nullptr);
  }

  void evaluate(Trainer& trainer) {
    const nlohmann::json metrics = run_.evaluate(trainer, eval_.samples, eval_.samples.size());
    run_.report("eval", metrics, metrics);
  }

  /// The number of the ending of each row, as run_glue.py writes its predictions; run_swag.py writes none.
  void predict(Trainer& trainer) {
    Predictions predictions;
    nlohmann::json metrics = trainer.test(test_.samples, "predict", &predictions);
    metrics["predict_samples"] = test_.samples.size();
    run_.report("predict", metrics, metrics);
    const std::vector<int32_t> best = best_rows(predictions);
    std::string content = "index\tprediction\n";
    for (size_t i = 0; i < best.size(); ++i) content += fmt::format("{}\t{}\n", i, best[i]);
    run_.write_predictions("predict_results.txt", content);
  }

  /// A context and its endings as words of the shell.
  std::string example() const {
    const ChoiceTable& shown = eval_.table.size() > 0    ? eval_.table
                               : train_.table.size() > 0 ? train_.table
                                                         : test_.table;
    if (shown.size() == 0) return "";
    TextDataset texts;
    texts.first = {shown.contexts[0]};
    std::string words = example_of(texts);
    for (size_t ending = 0; ending < shown.endings[0].size(); ++ending) {
      texts.first = {shown.second_text(0, ending)};
      words += " " + example_of(texts);
    }
    return words;
  }

  SwagArguments& swag_;
  TrainingArguments& training_;
  ScriptRun run_;
  ChoicePart train_, eval_, test_;
  int64_t length_ = 0;  ///< of a context with an ending at most, in tokens
};

}  // namespace

Command swag_command() {
  return script_command<Swag, SwagArguments>(
      "swag", "run_swag", "fine-tune and evaluate multiple choice",
      "lathe swag --model_name_or_path bert-base-cased --train_file train.csv \\\n"
      "      --validation_file dev.csv --do_train --do_eval --output_dir chooser");
}

}  // namespace lathe
