// lathe ner: what run_ner.py does.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lathe/app/commands/data_block.h"
#include "lathe/app/commands/script_run.h"
#include "lathe/data/hub_data.h"
#include "lathe/data/words/word_samples.h"
#include "lathe/report/label_findings.h"

namespace lathe {
namespace {

/// Sentences, and the samples that they become.
struct Part {
  WordTable table;
  TagIds ids;  ///< of its tags
  TokenizedDataset samples;
  std::vector<std::vector<LabelledToken>> scored;
  std::vector<int32_t> best;  ///< [tokens] what was predicted last
};

/// The labels of the tokens that count, a sample each.
TokenizedDataset tokens_as_samples(const Part& part) {
  TokenizedDataset out;
  std::vector<int32_t>& labels = out.tensors.ints("labels");
  for (const std::vector<LabelledToken>& sentence : part.scored)
    for (const LabelledToken& token : sentence) {
      labels.push_back(token.label);
      out.begins.push_back(std::ssize(labels));
    }
  return out;
}

/// The word of a token, between brackets in some of its sentence.
std::string in_context(const std::vector<std::string>& words, size_t word) {
  constexpr size_t kAround = 8;
  const size_t begin = word - std::min(word, kAround), end = std::min(words.size(), word + kAround + 1);
  std::string text = begin > 0 ? "…" : "";
  for (size_t i = begin; i < end; ++i)
    text += (text.empty() ? "" : " ") + (i == word ? "[" + words[i] + "]" : words[i]);
  return text + (end < words.size() ? " …" : "");
}

class Ner {
 public:
  Ner(Terminal& terminal, CommandLine<NerArguments>& line, RunFacts facts,
      std::shared_ptr<ProcessGroup> group)
      : ner_(line.script),
        training_(line.training),
        run_(terminal, line.training, std::move(facts), std::move(group)) {}

  int run() {
    const std::string resume_from = run_.prepare_output(run_inputs(ner_));
    Backend& backend = run_.open_device();
    FileSystem& fs = real_file_system();
    const HubSettings hub = run_.hub(ner_.token);
    const ModelFolders folders = fetch_folders(ner_, hub);
    const ModelConfig config = read_config(fs, folders);
    read_data(hub);
    choose_labels(config);
    cut_parts();
    run_.check_metric(metric_names());
    if (!train_.table.words_column.empty()) run_.learns_from({train_.table.words_column}, false);
    AutoModel model = load_model(folders, {token_labels, labels_.names(), ner_.ignore_mismatched_sizes}, ner_,
                                 ner_.model_name_or_path);
    model.tokenizer = load_words_tokenizer(folders.tokenizer, config.model_type);
    make_samples(model);
    run_.check_ranks({{"validation sentences", summary({&eval_.samples, 1})},
                      {"test sentences", summary({&test_.samples, 1})}});
    TrainerHooks hooks = run_.hooks();
    hooks.compute_metrics = [&](const TokenizedDataset& data, const Predictions& p) {
      return score(&data == &test_.samples ? test_ : eval_, p);
    };
    Trainer trainer(backend, model, training_, training_.do_train ? &train_.samples : nullptr,
                    training_.do_eval ? &eval_.samples : nullptr, hooks);
    trainer.pad_to(ner_.pad_to_max_length ? static_cast<int>(length_) : 0);
    trainer.call(ner_.model_name_or_path, called());
    if (!training_.do_train || resume_from.empty()) say_load_report(run_, trainer, model);
    if (training_.do_train) say_sentences(run_, train_.table, train_.ids, labels_, train_.samples);
    run_.carry_out([&] {
      if (training_.do_train) run_.train(trainer, resume_from, sentences(train_));
      if (training_.do_eval) evaluate(trainer);
      if (training_.do_predict) predict(trainer);
      if (training_.do_train) run_.write_card(trainer, card_facts());
    });
    run_.say_results(example());
    return 0;
  }

 private:
  static int64_t sentences(const Part& part) { return static_cast<int64_t>(part.table.size()); }

  /// As run_ner.py gives them to create_model_card.
  CardFacts card_facts() const {
    const std::string dataset = ner_.dataset_name.value_or(""), part = ner_.dataset_config_name.value_or("");
    return {.base_model = ner_.model_name_or_path,
            .task = "token-classification",
            .task_name = "Token Classification",
            .dataset = part.empty() ? dataset : dataset + " " + part,
            .dataset_tag = dataset,
            .dataset_args = part};
  }

  /// What messages call the training data: where they are, and what is read of them.
  std::string called() const {
    const WordTable& train = train_.table;
    return fmt::format(
        "{}, words in {}, tags in {}, {}{}{}", train.origin, train.words_from, train.tags_from,
        ner_.stride ? fmt::format("windows of {} tokens that share {}", length_, *ner_.stride)
                    : fmt::format("{} tokens at most", length_),
        ner_.label_all_tokens ? ", all of them with labels" : "",
        ner_.max_train_samples ? fmt::format(", the first {} sentences", *ner_.max_train_samples) : "");
  }

  /// Files by split, those of --dataset_name or own ones.
  SplitFiles find_files(const HubSettings& hub) const {
    SplitFiles files;
    if (!ner_.dataset_name) {
      if (ner_.train_file) files["train"] = {*ner_.train_file};
      if (ner_.validation_file) files["validation"] = {*ner_.validation_file};
      if (ner_.test_file) files["test"] = {*ner_.test_file};
      return files;
    }
    std::vector<std::string> wanted;
    if (training_.do_train) wanted.emplace_back("train");
    if (training_.do_eval) wanted.emplace_back("validation");
    if (training_.do_predict) wanted.emplace_back("test");
    if (wanted.empty()) return files;
    return fetch_splits(real_file_system(),
                        {*ner_.dataset_name, ner_.dataset_config_name, ner_.cache_dir.value_or("")}, wanted,
                        hub);
  }

  WordTable read(const std::vector<std::string>& paths, const char* what, bool tags_needed) {
    WordTable table =
        read_words(paths, {ner_.task_name, ner_.text_column_name, ner_.label_column_name, tags_needed});
    run_.say(LogLevel::kInfo,
             fmt::format("{} data: {}, words in {}, {}", what, paths.front(), table.words_from,
                         table.has_tags() ? "tags in " + table.tags_from : "without tags"));
    return table;
  }

  void read_data(const HubSettings& hub) {
    SplitFiles files = find_files(hub);
    if (training_.do_train) train_.table = read(files["train"], "training", true);
    if (training_.do_eval) eval_.table = read(files["validation"], "validation", true);
    if (training_.do_predict) test_.table = read(files["test"], "test", false);
  }

  /// Those of the training data; without a training those of the model, if it has labels of tokens.
  void choose_labels(const ModelConfig& config) {
    if (!training_.do_train && saved_task(config) == token_labels) {
      labels_ = TagLabels(config_labels(config));
    } else if (training_.do_train || eval_.table.has_tags() || test_.table.has_tags()) {
      std::vector<std::pair<std::string, int>> label2id;
      if (const auto ids = config.json->find("label2id"); ids != config.json->end() && ids->is_object())
        for (const auto& [name, id] : ids->items())
          if (id.is_number_integer()) label2id.emplace_back(name, id.get<int>());
      std::string notice;
      labels_ = choose_tag_labels(training_.do_train       ? train_.table
                                  : eval_.table.has_tags() ? eval_.table
                                                           : test_.table,
                                  label2id, &notice);
      if (!notice.empty()) run_.say(LogLevel::kWarning, notice);
    } else {
      labels_ = TagLabels(config_labels(config));
    }
    if (!training_.do_train && saved_task(config) != token_labels)
      run_.say(LogLevel::kWarning,
               fmt::format("{}: was not trained for labels of words; train it before you use "
                           "what it predicts",
                           ner_.model_name_or_path));
  }

  /// The first sentences of each part.  All of the training data has said which labels there are, as in the
  /// script.
  void cut_parts() {
    for (const auto& [part, limit] : {std::pair{&train_, ner_.max_train_samples},
                                      {&eval_, ner_.max_eval_samples},
                                      {&test_, ner_.max_predict_samples}}) {
      if (limit) part->table.truncate(static_cast<size_t>(*limit));
      part->ids = tag_ids(part->table, labels_);
    }
  }

  void make_samples(const AutoModel& model) {
    length_ = ner_.max_seq_length.value_or(longest_text(model));
    run_.bound_length(length_, model);
    WordLabelOptions options{.max_length = static_cast<int>(length_),
                             .label_all_tokens = ner_.label_all_tokens};
    if (ner_.stride) options.stride = static_cast<int>(*ner_.stride);
    ThreadPool pool(static_cast<int>(training_.threads));
    for (const auto& [part, what] :
         {std::pair{&train_, "training"}, {&eval_, "validation"}, {&test_, "test"}}) {
      if (part->table.size() == 0) continue;
      const LabelledSentences labelled =
          label_sentences(*model.tokenizer, part->table, part->ids, labels_, options, pool);
      say_cut_words(run_, what, part->table, labelled, length_);
      part->samples = word_samples(labelled, *model.tokenizer);
      part->scored = scored_tokens(labelled);
    }
  }

  MetricValues score(Part& part, const Predictions& p) {
    part.best = best_classes(p);
    if (&part == &eval_ && run_.wants_findings()) run_.show(findings(p));
    const TagIds wanted = wanted_tags(part.scored);
    if (std::ranges::all_of(wanted, [](const auto& tags) { return tags.empty(); })) return {};
    return seqeval_metrics(seqeval(wanted, found_tags(part.scored, part.best), labels_.names()),
                           ner_.return_entity_level_metrics);
  }

  /// The names of what an evaluation gives: the loss, and what `score` does.
  std::vector<std::string> metric_names() const {
    if (!ner_.return_entity_level_metrics) return {"loss", "precision", "recall", "f1", "accuracy"};
    std::set<std::string> types;
    for (const std::string& label : labels_.names())
      for (const TagSpan& span : tag_spans({&label, 1})) types.insert(span.type);
    std::vector<std::string> names{"loss"};
    for (const std::string& type : types)
      for (const char* name : {"precision", "recall", "f1", "number"})
        names.push_back(fmt::format("{}_{}", type, name));
    for (const char* name : {"precision", "recall", "f1", "accuracy"})
      names.push_back(fmt::format("overall_{}", name));
    return names;
  }

  /// Of the words of the validation data.
  Findings findings(const Predictions& p) const {
    Predictions of_words{.columns = p.columns};
    std::vector<std::pair<size_t, size_t>> places;  // sentence and word
    const auto columns = static_cast<size_t>(p.columns);
    for (size_t i = 0; i < eval_.scored.size(); ++i)
      for (const LabelledToken& token : eval_.scored[i]) {
        const float* logits = &p.logits[static_cast<size_t>(token.token) * columns];
        of_words.logits.insert(of_words.logits.end(), logits, logits + columns);
        places.emplace_back(i, static_cast<size_t>(token.word));
      }
    const TokenizedDataset learnt = tokens_as_samples(train_);
    return label_findings(
        {LabelKind::kClasses, labels_.names()}, eval_.table.origin, tokens_as_samples(eval_), of_words,
        [&](size_t i) { return in_context(eval_.table.words[places[i].first], places[i].second); },
        training_.do_train ? &learnt : nullptr);
  }

  void evaluate(Trainer& trainer) {
    const nlohmann::json metrics = run_.evaluate(trainer, eval_.samples, sentences(eval_));
    run_.report("eval", metrics, metrics);
  }

  void predict(Trainer& trainer) {
    Predictions predictions;
    nlohmann::json metrics = trainer.test(test_.samples, "predict", &predictions);
    metrics["predict_samples"] = test_.table.size();
    run_.report("predict", metrics, metrics);
    std::string content;
    for (const std::vector<int32_t>& tags : found_tags(test_.scored, best_classes(predictions))) {
      for (size_t i = 0; i < tags.size(); ++i)
        content += (i == 0 ? "" : " ") + labels_.names()[static_cast<size_t>(tags[i])];
      content += '\n';
    }
    run_.write_predictions("predictions.txt", content);
  }

  /// One of the first sentences as a word of the shell.
  std::string example() const {
    TextDataset texts;
    constexpr size_t kMost = 20;
    for (const Part* part : {&eval_, &train_})
      for (size_t i = 0; texts.first.empty() && i < std::min(part->table.size(), kMost); ++i)
        if (!part->table.words[i].empty())
          texts.first.push_back(fmt::format("{}", fmt::join(part->table.words[i], " ")));
    return example_of(texts);
  }

  NerArguments& ner_;
  TrainingArguments& training_;
  ScriptRun run_;
  Part train_, eval_, test_;
  TagLabels labels_;
  int64_t length_ = 0;  ///< of a sample at most, in tokens
};

}  // namespace

Command ner_command() {
  return script_command<Ner, NerArguments>(
      "ner", "run_ner", "fine-tune and evaluate labels of words",
      "lathe ner --model_name_or_path bert-base-cased --train_file train.conll \\\n"
      "      --validation_file dev.conll --do_train --do_eval --output_dir names");
}

}  // namespace lathe
