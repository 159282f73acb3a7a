// lathe embed: what sentence-transformers' SentenceTransformerTrainer does.
#include <fmt/format.h>

#include <algorithm>

#include "lathe/app/commands/data_block.h"
#include "lathe/app/commands/script_run.h"
#include "lathe/data/hub_data.h"
#include "lathe/data/retrieval/similarity_evaluation.h"
#include "lathe/text/python_format.h"
#include "lathe/train/sentence/embed_samples.h"
#include "lathe/train/sentence/embed_settings.h"
#include "lathe/train/sentence/search_evaluation.h"

namespace lathe {
namespace {

class Embed {
 public:
  Embed(Terminal& terminal, CommandLine<EmbedArguments>& line, RunFacts facts,
        std::shared_ptr<ProcessGroup> group)
      : embed_(line.script),
        training_(line.training),
        run_(terminal, line.training, std::move(facts), std::move(group)) {}

  int run() {
    if (!training_.do_train && !training_.do_eval && !training_.do_predict) return 0;  // which was said
    const std::string resume_from = run_.prepare_output(run_inputs(embed_));
    Backend& backend = run_.open_device();
    const HubSettings hub = run_.hub(embed_.token);
    ModelFolders folders = fetch_folders(embed_, hub);
    find_modules(folders, embed_);
    similarity_ = similarity_named(folders.modules->similarity);
    read_data(hub);
    choose_loss();
    run_.check_metric(metrics_of_evaluation());
    if (training_.do_train) run_.learns_from(train_.columns.names, true);
    AutoModel model =
        load_model(folders, {.made = text_similarity(loss_)}, embed_, embed_.model_name_or_path);
    check_widths(loss_, model, embed_.model_name_or_path);
    make_samples(model);
    run_.check_ranks(
        {{"validation rows", summary({&eval_.samples, 1})}, {"test rows", summary({&test_.samples, 1})}});
    TrainerHooks hooks = run_.hooks();
    hooks.compute_metrics = [&](const TokenizedDataset& data, const Predictions& p) {
      const EmbedPart& part = &data == &test_.samples ? test_ : eval_;
      const Vectors vectors{p.logits, p.columns};
      if (&part == &eval_ && run_.wants_findings()) run_.show(findings(vectors));
      return evaluation_metrics(part.columns, vectors, similarity_);
    };
    Trainer trainer(backend, model, training_, training_.do_train ? &train_.samples : nullptr,
                    training_.do_eval && eval_.samples.size() > 0 ? &eval_.samples : nullptr, hooks);
    trainer.call(embed_.model_name_or_path, called());
    if (!training_.do_train || resume_from.empty()) say_load_report(run_, trainer, model);
    if (training_.do_train) say_texts(run_, train_.columns, train_.samples, name_of(loss_));
    run_.carry_out([&] {
      if (training_.do_train) run_.train(trainer, resume_from, train_.samples.size());
      if (training_.do_eval) evaluate(trainer);
      if (training_.do_predict) predict(trainer);
      if (training_.do_train) run_.write_card(trainer, card_facts());
    });
    run_.say_results(example(), "encode");
    return 0;
  }

 private:
  /// By the data that it is computed of, or if there are none by those that are predicted.
  void choose_loss() {
    const bool computes_loss = training_.do_train || training_.do_eval;
    const TextColumns& columns = training_.do_train  ? train_.columns
                                 : training_.do_eval ? eval_.columns
                                                     : test_.columns;
    loss_ = loss_of(embed_, columns);
    if (computes_loss) check_columns(loss_, columns);
    std::vector<std::string> names;
    for (const EmbedPart* part : {&train_, &eval_, &test_})
      names.insert(names.end(), part->columns.names.begin(), part->columns.names.end());
    check_prompts(embed_, names);
  }

  static std::string name_of(const SimilarityLoss& loss) {
    return std::string(loss.cached > 0 ? "Cached" : "") + lathe::name_of(loss.kind) +
           (loss.widths.empty() ? "" : ", Matryoshka");
  }

  CardFacts card_facts() const {
    CardFacts facts{.base_model = embed_.model_name_or_path,
                    .task = "sentence-similarity",
                    .task_name = "Sentence Similarity",
                    .language = {},
                    .dataset = embed_.dataset_name.value_or(""),
                    .dataset_tag = embed_.dataset_name.value_or(""),
                    .dataset_args = embed_.dataset_config_name.value_or("")};
    facts.pipeline_tag = facts.task;
    facts.library = "sentence-transformers";
    facts.tags = {"sentence-transformers", "sentence-similarity", "feature-extraction",
                  "loss:" + name_of(loss_)};
    return facts;
  }

  /// What messages call the training data: where they are, and what is read of them.
  std::string called() const {
    const TextColumns& train = train_.columns;
    return fmt::format(
        "{}, texts in '{}'{}, {} tokens at most{}", train.origin, fmt::join(train.names, "', '"),
        train.target_name.empty() ? "" : fmt::format(", '{}'", train.target_name), length_,
        embed_.max_train_samples ? fmt::format(", the first {} rows", *embed_.max_train_samples) : "");
  }

  std::vector<std::string> metrics_of_evaluation() const {
    std::vector<std::string> names;
    if (eval_.columns.size() == 0) return {"loss"};
    if (has_loss(loss_, eval_.columns)) names.emplace_back("loss");
    for (const std::string& name : metric_names(eval_.columns, similarity_)) names.push_back(name);
    return names;
  }

  SplitFiles find_files(const HubSettings& hub) const {
    SplitFiles files;
    if (embed_.train_file) files["train"] = {*embed_.train_file};
    if (embed_.validation_file) files["validation"] = {*embed_.validation_file};
    if (embed_.test_file) files["test"] = {*embed_.test_file};
    if (!embed_.dataset_name) return files;
    std::vector<std::string> wanted;
    if (training_.do_train) wanted.emplace_back("train");
    if (training_.do_eval) wanted.emplace_back("validation");
    if (training_.do_predict) wanted.emplace_back("test");
    if (wanted.empty()) return {};
    const HubDataset dataset{*embed_.dataset_name, embed_.dataset_config_name, embed_.cache_dir.value_or("")};
    return fetch_splits(real_file_system(), dataset, wanted, hub);
  }

  /// learns: by the loss.
  TextColumns read(const std::vector<std::string>& paths, const char* what,
                   const std::optional<int64_t>& limit, bool learns) {
    const Table table = read_tables(paths);
    TextColumns columns = text_columns_of(table, column_rules(embed_, table, learns));
    run_.say(LogLevel::kInfo, fmt::format("{} data: {}", what, paths.front()));
    if (limit) columns.truncate(static_cast<size_t>(*limit));
    return columns;
  }

  void read_data(const HubSettings& hub) {
    SplitFiles files = find_files(hub);
    if (training_.do_train) train_.columns = read(files["train"], "training", embed_.max_train_samples, true);
    if (training_.do_eval) {
      eval_.columns = read(files["validation"], "validation", embed_.max_eval_samples, !training_.do_train);
      eval_.columns.reorder(order_of_evaluation(eval_.columns, embed_, training_));
    }
    if (training_.do_predict) test_.columns = read(files["test"], "test", embed_.max_predict_samples, false);
  }

  void make_samples(const AutoModel& model) {
    length_ = length_of_texts(model);
    ThreadPool pool(static_cast<int>(training_.threads));
    for (EmbedPart* part : {&train_, &eval_, &test_})
      if (part->columns.size() > 0) lathe::make_samples(*part, embed_, loss_, model, part == &train_, pool);
  }

  Findings findings(Vectors vectors) const {
    Findings found{.data = eval_.columns.origin, .labels = {}};
    found.similarities = similarity_findings(eval_.columns, vectors, similarity_);
    return found;
  }

  void evaluate(Trainer& trainer) {
    nlohmann::json metrics = run_.evaluate(trainer, eval_.samples, eval_.samples.size());
    if (embed_.corpus_file) {
      const nlohmann::json found = search(trainer);
      metrics.update(found);
    }
    run_.report("eval", metrics, metrics);
  }

  /// Of the weights as they are now.
  nlohmann::json search(Trainer& trainer) {
    const RetrievalSet set =
        retrieval_set_of(read_tables({*embed_.corpus_file}), read_tables({*embed_.queries_file}),
                         read_tables({*embed_.qrels_file}));
    if (set.without_relevant > 0)
      run_.say(LogLevel::kWarning,
               fmt::format("{}: {} queries have no document that belongs to them; they are left out",
                           *embed_.queries_file, set.without_relevant));
    nlohmann::json metrics;
    for (const auto& [name, value] :
         search_metrics(trainer, set, similarity_, static_cast<int>(length_), training_.threads))
      metrics["eval_" + name] = value;
    return metrics;
  }

  /// How alike the texts of each row are: the similarity of the first two.
  void predict(Trainer& trainer) {
    Predictions predictions;
    nlohmann::json metrics = trainer.test(test_.samples, "predict", &predictions);
    metrics["predict_samples"] = test_.samples.size();
    run_.report("predict", metrics, metrics);
    const Vectors all{predictions.logits, predictions.columns};
    const size_t count = test_.columns.texts.size();
    const std::vector<float> a = vectors_of_column(all, 0, count), b = vectors_of_column(all, 1, count);
    const std::vector<double> scores = pair_similarities(similarity_, {a, all.width}, {b, all.width});
    std::string content = "index\tprediction\n";
    for (size_t i = 0; i < scores.size(); ++i)
      content += fmt::format("{}\t{}\n", i, python_repr(static_cast<double>(static_cast<float>(scores[i]))));
    run_.write_predictions("predict_results.txt", content);
  }

  std::string example() const {
    const EmbedPart& shown = eval_.columns.size() > 0 ? eval_ : train_.columns.size() > 0 ? train_ : test_;
    TextDataset texts;
    if (shown.columns.size() == 0) return "";
    texts.first = {shown.columns.texts[0][0]};
    return example_of(texts);
  }

  EmbedArguments& embed_;
  TrainingArguments& training_;
  ScriptRun run_;
  EmbedPart train_, eval_, test_;
  SimilarityLoss loss_;
  Similarity similarity_ = Similarity::kCosine;
  int64_t length_ = 0;  ///< of a text at most, in tokens
};

}  // namespace

Command embed_command() {
  return script_command<Embed, EmbedArguments>(
      "embed", "", "fine-tune vectors of texts, as sentence-transformers does",
      "lathe embed --model_name_or_path all-MiniLM-L6-v2 --train_file pairs.csv \\\n"
      "      --validation_file dev.csv --do_train --do_eval --output_dir embedder");
}

}  // namespace lathe
