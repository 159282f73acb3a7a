// lathe qa: what run_qa.py does.
#include <fmt/format.h>

#include <algorithm>

#include "lathe/app/commands/data_block.h"
#include "lathe/app/commands/script_run.h"
#include "lathe/core/environment.h"
#include "lathe/data/glue_tasks.h"
#include "lathe/data/hub_data.h"
#include "lathe/data/qa_postprocess.h"

namespace lathe {
namespace {

/// A checksum of the data, other than tokens, that scores depend on.
std::string checksum(const SquadDataset& data) {
  Checksum sum;
  for (const std::string& context : data.contexts) sum.add(context);
  for (const SquadExample& example : data.examples) {
    sum.add(example.id);
    for (const SquadAnswer& answer : example.answers) sum.add(answer.text);
  }
  return sum.text();
}

class Qa {
 public:
  Qa(Terminal& terminal, CommandLine<QaArguments>& line, RunFacts facts, std::shared_ptr<ProcessGroup> group)
      : qa_(line.script),
        training_(line.training),
        run_(terminal, line.training, std::move(facts), std::move(group)) {}

  int run() {
    const std::string resume_from = run_.prepare_output(run_inputs(qa_));
    Backend& backend = run_.open_device();
    const HubSettings hub = run_.hub(qa_.token);
    const ModelFolders folders = fetch_folders(qa_, hub);
    read_data(hub);
    run_.check_metric(metric_names());
    AutoModel model = load_model(folders, {question_answering, {}, false}, qa_, qa_.model_name_or_path);
    run_.bound_length(qa_.max_seq_length, model);
    make_features(*model.tokenizer);
    run_.check_ranks({{"validation questions", checksum(eval_)},
                      {"test questions", checksum(test_)},
                      {"test data", summary({&test_features_.tokens, 1})}});
    TrainerHooks hooks = run_.hooks();
    hooks.compute_metrics = [&](const TokenizedDataset& data, const Predictions& p) {
      return score(data, p);
    };
    Trainer trainer(backend, model, training_, training_.do_train ? &train_features_.tokens : nullptr,
                    eval_.examples.empty() ? nullptr : &eval_features_.tokens, hooks);
    trainer.pad_to(qa_.pad_to_max_length ? static_cast<int>(qa_.max_seq_length) : 0);
    trainer.call(qa_.model_name_or_path, called(train_));
    if (!training_.do_train || resume_from.empty()) say_load_report(run_, trainer, model);
    run_.carry_out([&] {
      if (training_.do_train) run_.train(trainer, resume_from, train_features_.tokens.size());
      if (training_.do_eval) evaluate(trainer);
      if (training_.do_predict) predict(trainer);
      if (training_.do_train) run_.write_card(trainer, card_facts());
    });
    run_.say_results(
        "--question 'Who opened the bridge?' --context 'The bridge was opened by the mayor in 1932.'");
    return 0;
  }

 private:
  CardFacts card_facts() const {
    const std::string dataset = qa_.dataset_name.value_or(""), part = qa_.dataset_config_name.value_or("");
    return {.base_model = qa_.model_name_or_path,
            .task = "question-answering",
            .task_name = "Question Answering",
            .dataset = part.empty() ? dataset : dataset + " " + part,
            .dataset_tag = dataset,
            .dataset_args = part};
  }

  /// What messages call the training data: where they are, and what is read of them.
  std::string called(const SquadDataset& train) const {
    return fmt::format(
        "{}, windows of {} tokens that share {}{}", train.origin, qa_.max_seq_length, qa_.doc_stride,
        qa_.max_train_samples ? fmt::format(", the first {} questions", *qa_.max_train_samples) : "");
  }

  SquadDataset read(const std::vector<std::string>& paths, const char* what, QuestionIds ids) {
    const std::string& path = paths.front();
    run_.say(LogLevel::kInfo, fmt::format("{} data: {}", what, path));
    SquadDataset data = read_squad(paths, ids);
    if (data.uncertain_starts > 0)
      run_.say(LogLevel::kInfo, fmt::format("{}: {} of {} questions have an answer start that was guessed",
                                            path, data.uncertain_starts, data.examples.size()));
    if (data.misplaced_answers > 0)
      run_.say(
          LogLevel::kWarning,
          fmt::format("{}: {} answers are not what stands at their answer_start in the context, the first "
                      "that of question '{}': training takes the place, scoring the text, as run_qa does",
                      path, data.misplaced_answers, data.first_misplaced));
    return data;
  }

  /// Questions whose answers are compared, where they have some.
  SquadDataset read_to_answer(const std::vector<std::string>& paths, const char* what,
                              const std::optional<int64_t>& limit) {
    SquadDataset data = read(paths, what, QuestionIds::kDistinct);
    const auto count = std::ssize(data.examples);
    const auto unanswered = std::ranges::count_if(
        data.examples, [](const SquadExample& example) { return example.answers.empty(); });
    if (data.unlabelled > 0 && data.unlabelled < count)
      fail(ErrorCode::kInvalidData,
           "{}: found no \"answers\", which other questions have; expected them for all of them or for none: "
           "[] "
           "says that a question has none",
           data.first_unlabelled);
    if (!qa_.version_2_with_negative && data.unlabelled == 0 && unanswered > 0)
      run_.say(LogLevel::kWarning,
               fmt::format("{}: {} of {} questions have no answer, and whatever is predicted for them counts "
                           "as wrong; --version_2_with_negative takes none for an answer",
                           paths.front(), unanswered, count));
    if (limit) data.truncate(static_cast<size_t>(*limit));
    return data;
  }

  /// SQuAD's own files below --data_dir or $LATHE_DATA_DIR; none where the data set is to come from the Hub.
  std::optional<SquadFiles> local_squad() {
    const std::string& name = *qa_.dataset_name;
    const bool version_2 = file_name(name) == "squad_v2";
    const std::string data_dir = qa_.data_dir.value_or("");
    if (name != "squad" && name != "squad_v2" && name != "rajpurkar/squad" && name != "rajpurkar/squad_v2")
      return std::nullopt;
    const std::string root = environment("LATHE_DATA_DIR");
    const SquadFiles found = look_for_squad_files(version_2, data_dir, root);
    if (data_dir.empty() && found.train.empty() && found.validation.empty()) return std::nullopt;
    return find_squad_files(version_2, data_dir, root);
  }

  /// Files by split, those of --dataset_name or own ones.
  SplitFiles find_files(const HubSettings& hub) {
    SplitFiles files;
    if (!qa_.dataset_name) {
      if (qa_.train_file) files["train"] = {*qa_.train_file};
      if (qa_.validation_file) files["validation"] = {*qa_.validation_file};
      return files;
    }
    std::vector<std::string> wanted;
    if (training_.do_train) wanted.emplace_back("train");
    if (training_.do_eval) wanted.emplace_back("validation");
    if (training_.do_predict && !qa_.test_file) wanted.emplace_back("test");
    if (wanted.empty()) return files;
    if (const auto local = local_squad()) {
      for (const std::string& split : wanted) {
        if (split == "test")
          fail(ErrorCode::kUsage,
               "--do_predict: SQuAD's test questions are not public; give --test_file, or --do_eval, which "
               "writes what it predicts for the validation questions, too");
        const std::string& path = split == "train" ? local->train : local->validation;
        if (path.empty())
          fail(ErrorCode::kNotFound,
               "--dataset_name {}: no {} file; looked in:\n  {}\nGive --data_dir or set "
               "LATHE_DATA_DIR.",
               *qa_.dataset_name, split == "train" ? "train-v*.json" : "dev-v*.json",
               fmt::join(local->looked_in, "\n  "));
        files[split] = {path};
      }
      return files;
    }
    return fetch_splits(real_file_system(),
                        {*qa_.dataset_name, qa_.dataset_config_name, qa_.cache_dir.value_or("")}, wanted,
                        hub);
  }

  void read_data(const HubSettings& hub) {
    SplitFiles files = find_files(hub);
    if (training_.do_train) train_ = read(files["train"], "training", QuestionIds::kAny);
    if (!train_.first_unlabelled.empty())
      fail(ErrorCode::kInvalidData,
           "{}: found no \"answers\", expected them for every question to learn from: [] says that it has "
           "none",
           train_.first_unlabelled);
    if (training_.do_eval) eval_ = read_to_answer(files["validation"], "validation", qa_.max_eval_samples);
    if (training_.do_predict)
      test_ = read_to_answer(qa_.test_file ? std::vector{*qa_.test_file} : files["test"], "test",
                             qa_.max_predict_samples);
    if (training_.do_train && qa_.max_train_samples)
      train_.truncate(static_cast<size_t>(*qa_.max_train_samples));
  }

  void make_features(const Tokenizer& tokenizer) {
    ThreadPool pool(static_cast<int>(training_.threads));
    const QaFeatureOptions options{static_cast<int>(qa_.max_seq_length), static_cast<int>(qa_.doc_stride)};
    const auto cut = [](QaFeatures& features, const std::optional<int64_t>& limit) {
      if (limit) features.truncate(*limit);  // windows beyond the limit go, as in run_qa
    };
    if (!train_.examples.empty()) {
      train_features_ = make_train_features(train_, tokenizer, options, pool);
      say_questions(run_, train_, train_features_);
      cut(train_features_, qa_.max_train_samples);
    }
    if (!eval_.examples.empty()) {
      eval_features_ = make_validation_features(eval_, tokenizer, options, pool);
      cut(eval_features_, qa_.max_eval_samples);
    }
    if (!test_.examples.empty()) {
      test_features_ = make_validation_features(test_, tokenizer, options, pool);
      cut(test_features_, qa_.max_predict_samples);
    }
  }

  void postprocess(const SquadDataset& data, const QaFeatures& features, const Predictions& p) {
    std::vector<float> starts, ends;
    for (size_t i = 0; i < p.logits.size(); i += 2) {
      starts.push_back(p.logits[i]);
      ends.push_back(p.logits[i + 1]);
    }
    QaPostprocessOptions options;
    options.n_best_size = static_cast<int>(qa_.n_best_size);
    options.max_answer_length = static_cast<int>(qa_.max_answer_length);
    options.version_2_with_negative = qa_.version_2_with_negative;
    options.null_score_diff_threshold = static_cast<float>(qa_.null_score_diff_threshold);
    answers_ = postprocess_qa(data, features, starts, ends, options);
  }

  /// Whether there is something to compare with.  With negatives no answer is one, where the data say so.
  bool can_score(const SquadDataset& squad) const {
    const auto answered = [](const SquadExample& example) { return !example.answers.empty(); };
    return squad.unlabelled == 0 &&
           (qa_.version_2_with_negative || std::ranges::any_of(squad.examples, answered));
  }

  MetricValues score(const TokenizedDataset& data, const Predictions& p) {
    const bool test = &data == &test_features_.tokens;
    const SquadDataset& squad = test ? test_ : eval_;
    postprocess(squad, test ? test_features_ : eval_features_, p);
    if (!can_score(squad)) return {};
    if (!test && run_.wants_findings()) run_.show(findings());
    return qa_.version_2_with_negative ? squad_v2_metrics(squad, answers_.answers)
                                       : squad_v1_metrics(squad, answers_.answers);
  }

  /// The names of what `score` gives; evaluations have no loss here, as in run_qa.
  std::vector<std::string> metric_names() const {
    if (!can_score(eval_)) return {};
    if (!qa_.version_2_with_negative) return {"exact_match", "f1"};
    std::vector<std::string> names;
    for (const char* part : {"", "HasAns_", "NoAns_"})
      for (const char* name : {"exact", "f1", "total"}) names.push_back(fmt::format("{}{}", part, name));
    names.insert(names.end(), {"best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh"});
    return names;
  }

  /// The questions that were answered worst.
  Findings findings() const {
    constexpr size_t kWorst = 20;
    std::vector<double> badness;
    for (size_t i = 0; i < eval_.examples.size(); ++i)
      badness.push_back(1 - squad_f1(eval_.examples[i], answers_.answers[i], qa_.version_2_with_negative));
    Findings found{.data = eval_.origin, .score = "F1"};
    found.worst = worst_examples(badness, kWorst, [&](size_t i) {
      const SquadExample& example = eval_.examples[i];
      return Example{example.question, example.answers.empty() ? "" : example.answers[0].text,
                     answers_.answers[i].text, 1 - badness[i]};
    });
    return found;
  }

  void write_predictions(const std::string& split, const SquadDataset& data) {
    run_.write_predictions(split + "_predictions.json", predictions_json(data, answers_));
    run_.write(split + "_nbest_predictions.json", nbest_json(data, answers_));
    if (qa_.version_2_with_negative) run_.write(split + "_null_odds.json", null_odds_json(data, answers_));
  }

  void evaluate(Trainer& trainer) {
    const nlohmann::json metrics =
        run_.evaluate(trainer, eval_features_.tokens, eval_features_.tokens.size());
    run_.report("eval", metrics, metrics);
    write_predictions("eval", eval_);
  }

  void predict(Trainer& trainer) {
    // run_qa's names: those of its QuestionAnsweringTrainer.predict, and the count that it adds itself.
    nlohmann::json metrics = trainer.test(test_features_.tokens);
    metrics["predict_samples"] = test_features_.tokens.size();
    run_.report("predict", metrics, metrics);
    write_predictions("predict", test_);
  }

  QaArguments& qa_;
  TrainingArguments& training_;
  ScriptRun run_;
  SquadDataset train_, eval_, test_;
  QaFeatures train_features_, eval_features_, test_features_;
  QaPredictions answers_;  ///< of the evaluation that ran last
};

}  // namespace

Command qa_command() {
  return script_command<Qa, QaArguments>(
      "qa", "run_qa", "fine-tune and evaluate question answering",
      "lathe qa --model_name_or_path bert-base-cased --dataset_name squad \\\n"
      "      --do_train --do_eval --output_dir squad");
}

}  // namespace lathe
