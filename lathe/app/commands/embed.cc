// lathe embed: what sentence-transformers' SentenceTransformerTrainer does.
#include <fmt/format.h>

#include <algorithm>

#include "lathe/app/commands/data_block.h"
#include "lathe/app/commands/embed_settings.h"
#include "lathe/app/commands/script_run.h"
#include "lathe/data/hub_data.h"
#include "lathe/data/retrieval/no_duplicates.h"
#include "lathe/data/retrieval/similarity_evaluation.h"
#include "lathe/data/retrieval/text_samples.h"
#include "lathe/data/torch_random.h"
#include "lathe/models/sentence/pooling_inputs.h"
#include "lathe/text/python_format.h"
#include "lathe/train/sentence/saved_sentence.h"
#include "lathe/train/sentence/search_evaluation.h"
#include "lathe/train/sentence/text_encoder.h"

namespace lathe {
namespace {

struct EmbedPart {
  TextColumns columns;
  TokenizedDataset samples;
};

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
    check_widths(model);
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
    if (has_loss(eval_.columns)) names.emplace_back("loss");
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

  /// learns: by the loss.  Data that are only evaluated may have other columns than those that it reads.
  TextColumns read(const std::vector<std::string>& paths, const char* what,
                   const std::optional<int64_t>& limit, bool learns) {
    const Table table = read_tables(paths);
    TextColumnRules rules = column_rules(embed_);
    if (!learns) {
      const auto lacks = [&](const std::string& name) { return table.find(name) == nullptr; };
      TextColumnRules any;
      if (std::none_of(rules.text_names.begin(), rules.text_names.end(), lacks))
        any.text_names = std::move(rules.text_names);
      if (rules.target_name && !lacks(*rules.target_name)) any.target_name = std::move(rules.target_name);
      rules = std::move(any);
    }
    TextColumns columns = text_columns_of(table, rules);
    run_.say(LogLevel::kInfo, fmt::format("{} data: {}", what, paths.front()));
    if (limit) columns.truncate(static_cast<size_t>(*limit));
    return columns;
  }

  void read_data(const HubSettings& hub) {
    SplitFiles files = find_files(hub);
    if (training_.do_train) train_.columns = read(files["train"], "training", embed_.max_train_samples, true);
    if (training_.do_eval) {
      eval_.columns = read(files["validation"], "validation", embed_.max_eval_samples, !training_.do_train);
      eval_.columns.reorder(order_of_evaluation());
    }
    if (training_.do_predict) test_.columns = read(files["test"], "test", embed_.max_predict_samples, false);
  }

  /// Losses of texts among others depend on which are in one batch.
  /// Source: BaseTrainer.get_batch_sampler of sentence-transformers, which draws an order there, too.
  std::vector<int32_t> order_of_evaluation() const {
    const auto seed = static_cast<uint64_t>(training_.data_seed.value_or(training_.seed));
    if (embed_.batch_sampler != "no_duplicates")
      return TorchGenerator(seed).randperm(static_cast<int64_t>(eval_.columns.size()));
    std::vector<int32_t> order;
    const NoDuplicatesOptions options{static_cast<int>(training_.per_device_eval_batch_size), false, seed};
    const auto batches = no_duplicates_batches(text_numbers(eval_.columns.texts), options);
    std::vector<bool> taken(eval_.columns.size());
    for (const std::vector<int32_t>& batch : batches.batches)
      for (const int32_t row : batch)
        if (!taken[static_cast<size_t>(row)]) order.push_back(row), taken[static_cast<size_t>(row)] = true;
    for (size_t row = 0; row < taken.size(); ++row)
      if (!taken[row]) order.push_back(static_cast<int32_t>(row));
    return order;
  }

  /// Whether the loss is one for such data: of pairs that are not all alike it needs to read which are.
  bool has_loss(const TextColumns& columns) const {
    const size_t texts = columns.texts.size();
    switch (loss_.kind) {
      case SimilarityLoss::Kind::kMultipleNegatives:
        return columns.target_name.empty();
      case SimilarityLoss::Kind::kTriplet:
        return texts == 3 && columns.target_name.empty();
      default:
        return texts == 2 && !columns.target_name.empty();
    }
  }

  void check_widths(const AutoModel& model) const {
    const int64_t width = vector_width(model);
    for (const auto& part : loss_.widths)
      if (part.width > width)
        fail(ErrorCode::kUsage,
             "--matryoshka_dims: found {}, expected at most the {} numbers of {}'s vectors", part.width,
             width, embed_.model_name_or_path);
  }

  void make_samples(const AutoModel& model) {
    const SentenceFolder modules = modules_of(model);
    length_ = longest_text(model);
    if (modules.max_seq_length) length_ = std::min(length_, *modules.max_seq_length);
    ThreadPool pool(static_cast<int>(training_.threads));
    for (EmbedPart* part : {&train_, &eval_, &test_}) {
      if (part->columns.size() == 0) continue;
      const std::vector<std::string> prompts = prompts_of(embed_, part->columns);
      part->samples =
          tokenize_columns(part->columns, *model.tokenizer,
                           {.max_length = static_cast<int>(length_),
                            .lowers = modules.do_lower_case,
                            .prompts = prompts,
                            .keep_apart = part == &train_ && embed_.batch_sampler == "no_duplicates"},
                           pool);
      put_prompt_lengths(part->samples, prompts, model);
      if (has_loss(part->columns)) put_targets(*part);
    }
  }

  /// The pooling of some models leaves the tokens of prompts out.
  void put_prompt_lengths(TokenizedDataset& samples, const std::vector<std::string>& prompts,
                          const AutoModel& model) const {
    std::vector<int32_t> lengths;
    for (const std::string& prompt : prompts)
      lengths.push_back(prompt_tokens(model, prompt, static_cast<int>(length_)));
    if (std::all_of(lengths.begin(), lengths.end(), [](int32_t length) { return length == 0; })) return;
    Tensor all{.name = kPromptLength, .width = std::ssize(lengths), .values = {}};
    std::vector<int32_t> values;
    for (int64_t i = 0; i < samples.size(); ++i) values.insert(values.end(), lengths.begin(), lengths.end());
    all.values = std::move(values);
    samples.tensors.append(all);
  }

  void put_targets(EmbedPart& part) const {
    TensorList& tensors = part.samples.tensors;
    const std::vector<double>& targets = part.columns.targets;
    if (loss_.kind == SimilarityLoss::Kind::kCoSent)
      tensors.ints("ranks") = ranks_of_values(targets);
    else if (!part.columns.target_name.empty())
      tensors.floats("labels") = {targets.begin(), targets.end()};
    else
      tensors.ints(kTextsOfSample)
          .assign(part.columns.size(), static_cast<int32_t>(part.columns.texts.size()));
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
