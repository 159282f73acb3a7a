// lathe mlm: what run_mlm.py does.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lathe/app/commands/data_block.h"
#include "lathe/app/commands/script_run.h"
#include "lathe/core/ceil_div.h"
#include "lathe/data/hub_data.h"
#include "lathe/data/lm/text_files.h"
#include "lathe/io/json_file.h"
#include "lathe/text/text.h"
#include "lathe/train/config/config_overrides.h"

namespace lathe {
namespace {

class Mlm {
 public:
  Mlm(Terminal& terminal, CommandLine<MlmArguments>& line, RunFacts facts,
      std::shared_ptr<ProcessGroup> group)
      : mlm_(line.script),
        training_(line.training),
        run_(terminal, line.training, std::move(facts), std::move(group)) {}

  int run() {
    const std::string resume_from = run_.prepare_output(run_inputs(mlm_));
    Backend& backend = run_.open_device();
    const HubSettings hub = run_.hub(mlm_.token);
    AutoModel model = make_model(hub);
    const Tokenizer& tokenizer = *model.tokenizer;
    TrainerHooks hooks = run_.hooks();
    length_ = static_cast<int>(run_.row_length(mlm_.max_seq_length, model));
    hooks.masks = std::make_shared<BatchMasks>(rules(tokenizer), static_cast<uint64_t>(training_.seed));
    read_data(hub);
    run_.check_metric({"loss", "accuracy"});
    if (!train_.column.empty()) run_.learns_from({train_.column}, false);
    ThreadPool pool(static_cast<int>(training_.threads));
    TokenizedDataset train =
        samples(train_texts(), "training", train_, tokenizer, pool, mlm_.max_train_samples);
    TokenizedDataset eval =
        samples(eval_texts(), "validation", eval_file(), tokenizer, pool, mlm_.max_eval_samples);
    if (training_.do_train) say_samples(run_, train, tokenizer);
    run_.check_ranks({{"validation samples", summary({&eval, 1})}});
    hooks.compute_metrics = [](const TokenizedDataset&, const Predictions& p) {
      return MetricValues{{"accuracy", static_cast<double>(p.correct) / static_cast<double>(p.counted)}};
    };
    Trainer trainer(backend, model, training_, training_.do_train ? &train : nullptr,
                    training_.do_eval ? &eval : nullptr, hooks);
    trainer.pad_to(mlm_.line_by_line && mlm_.pad_to_max_length ? length_ : 0);
    trainer.call(name(), called());
    if (mlm_.model_name_or_path && (!training_.do_train || resume_from.empty()))
      say_load_report(run_, trainer, model);
    run_.carry_out([&] {
      if (training_.do_train) run_.train(trainer, resume_from, train.size());
      if (training_.do_eval) evaluate(trainer, eval);
      if (training_.do_train) run_.write_card(trainer, card_facts());
    });
    run_.say_results(example(tokenizer));
    return 0;
  }

 private:
  /// How the user calls the model.
  std::string name() const { return mlm_.model_name_or_path.value_or(mlm_.config_name.value_or("")); }

  AutoModel make_model(const HubSettings& hub) {
    const ModelFolders folders = fetch_folders(mlm_, hub);
    if (mlm_.model_name_or_path) return loaded(folders);
    Tokenizer tokenizer = Tokenizer::load(folders.tokenizer);
    const std::string file = "--model_type " + mlm_.model_type.value_or("");
    ModelConfig config = mlm_.config_name
                             ? read_model_config(real_file_system(), folders.config)
                             : parse_model_config(nlohmann::json{{"model_type", *mlm_.model_type}}, file);
    if (tokenizer.vocab_size() > config.vocab_size) {
      nlohmann::json json = *config.json;
      json["vocab_size"] = tokenizer.vocab_size();
      config = parse_model_config(json, config.file);
    }
    config = with_overrides(config, folders.config_overrides);
    if (tokenizer.vocab_size() > config.vocab_size)
      fail(ErrorCode::kUsage,
           "--config_overrides: found vocab_size={}, expected at least the {} tokens of {}",
           config.vocab_size, tokenizer.vocab_size(), *mlm_.tokenizer_name);
    AutoModel model = from_config(config, {masked_lm, {}, false}, std::move(tokenizer));
    if (mlm_.use_peft)
      fail(ErrorCode::kUsage, "--use_peft: found no --model_name_or_path: an adapter needs a trained model");
    run_.say(LogLevel::kInfo, fmt::format("a new model, {} with {} layers of {}", config.model_type,
                                          config.num_hidden_layers, config.hidden_size));
    return model;
  }

  AutoModel loaded(const ModelFolders& folders) {
    AutoModel model = load_model(folders, {.task = masked_lm, .grows = true}, mlm_, *mlm_.model_name_or_path);
    if (model.stored_tokens > 0 && model.adapter)
      fail(
          ErrorCode::kUsage,
          "--use_peft: the tokenizer has {} tokens, the model {}, expected no more: an adapter does not hold "
          "rows of new tokens; train the whole model, or take the model's own tokenizer",
          model.config.vocab_size, model.stored_tokens);
    if (model.stored_tokens > 0)
      run_.say(
          LogLevel::kInfo,
          fmt::format("the tokenizer has {} tokens, the model {}: {} are added to it, each begins as the "
                      "mean of the others",
                      model.config.vocab_size, model.stored_tokens,
                      model.config.vocab_size - model.stored_tokens));
    return model;
  }

  MaskRules rules(const Tokenizer& tokenizer) const {
    MaskRules rules = mask_rules(tokenizer);
    rules.probability = mlm_.mlm_probability;
    if (mlm_.line_by_line && mlm_.pad_to_max_length) rules.least_length = length_;
    if (mlm_.line_by_line && !mlm_.pad_to_max_length && training_.fp16) rules.pad_to_multiple_of = 8;
    return rules;
  }

  /// Files by split.
  SplitFiles find_files(const HubSettings& hub) const {
    if (!mlm_.dataset_name) {
      SplitFiles files;
      if (mlm_.train_file) files["train"] = {*mlm_.train_file};
      if (mlm_.validation_file) files["validation"] = {*mlm_.validation_file};
      return files;
    }
    const HubDataset dataset{*mlm_.dataset_name, mlm_.dataset_config_name, mlm_.cache_dir.value_or("")};
    try {
      return fetch_splits(real_file_system(), dataset, {"train", "validation"}, hub);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotFound) throw;
      return fetch_splits(real_file_system(), dataset, {"train"}, hub);
    }
  }

  /// Of data without validation texts the first ones of the training are those, as in the script also where
  /// nothing is evaluated.
  void read_data(const HubSettings& hub) {
    SplitFiles files = find_files(hub);
    const bool splits = !files.contains("validation");
    if (training_.do_train || splits) read(files["train"], "training", train_);
    if (!splits && training_.do_eval) read(files["validation"], "validation", eval_);
    if (!splits) return;
    const auto rows = std::ssize(train_.texts);
    const auto percent = static_cast<int>(mlm_.validation_split_percentage);
    split_ = split_validation(rows, percent).validation.end;
    run_.say(LogLevel::kInfo,
             fmt::format("no validation data: the first {} of {} training texts ({} %) are them", split_,
                         rows, percent));
    if (training_.do_eval && split_ == 0)
      fail(ErrorCode::kUsage,
           "--validation_split_percentage: found {}, which leaves none of {} texts for --do_eval; give more, "
           "or --validation_file",
           percent, rows);
  }

  void read(const std::vector<std::string>& paths, const char* what, TextFiles& out) {
    read_text_files(paths, out);
    run_.say(LogLevel::kInfo,
             fmt::format("{} data: {}, {}, {} texts", what, paths.front(), out.from, out.texts.size()));
  }

  const TextFiles& eval_file() const { return split_ > 0 ? train_ : eval_; }
  std::span<const std::string_view> train_texts() const {
    return training_.do_train ? std::span(train_.texts).subspan(static_cast<size_t>(split_))
                              : std::span<const std::string_view>();
  }
  std::span<const std::string_view> eval_texts() const {
    if (!training_.do_eval) return {};
    return split_ > 0 ? std::span(train_.texts).first(static_cast<size_t>(split_)) : std::span(eval_.texts);
  }

  /// As the script makes them; none of no texts.
  TokenizedDataset samples(std::span<const std::string_view> texts, const char* what, const TextFiles& file,
                           const Tokenizer& tokenizer, ThreadPool& pool, const std::optional<int64_t>& most) {
    if (texts.empty()) return {};
    const std::vector<std::string_view> usable =
        mlm_.line_by_line ? texts_with_words(texts) : std::vector(texts.begin(), texts.end());
    if (texts_with_words(usable).empty())
      fail(ErrorCode::kInvalidData, "{}: none of the {} {} texts has a word, expected texts to learn from",
           file.origin, texts.size(), what);
    TextRows rows = tokenize_texts(usable, tokenizer, mlm_.line_by_line ? length_ : 0, pool);
    const int64_t tokens = std::ssize(rows.ids), cut = rows.cut_rows;
    if (!mlm_.line_by_line) rows = group_texts(rows, length_);
    if (rows.size() == 0)
      fail(ErrorCode::kInvalidData,
           "{}: found {} {} tokens, expected at least the {} of a sample: give more texts, a smaller "
           "--max_seq_length, or --line_by_line, which makes each text a sample",
           file.origin, tokens, what, length_);
    const int64_t left = tokens - std::ssize(rows.ids);
    keep_first(rows, most.value_or(rows.size()));
    std::string line = fmt::format("{} {} samples, {} tokens", rows.size(), what, rows.ids.size());
    if (mlm_.line_by_line)
      line += cut > 0 ? fmt::format("; {} texts are cut at {}", cut, length_) : "; none cut";
    else
      line += fmt::format(", {} each; {} at the ends of thousands of texts are left out", length_, left);
    run_.say(LogLevel::kInfo, line);
    return masked_lm_samples(std::move(rows.ids), std::move(rows.begins),
                             training_.remove_unused_columns ? std::vector<uint8_t>() : rows.special);
  }

  static void keep_first(TextRows& rows, int64_t most) {
    if (most >= rows.size()) return;
    rows.begins.resize(static_cast<size_t>(most) + 1);
    rows.ids.resize(static_cast<size_t>(rows.begins.back()));
    rows.special.resize(rows.ids.size());
  }

  /// As run_mlm.py gives them to create_model_card.
  CardFacts card_facts() const {
    const std::string dataset = mlm_.dataset_name.value_or(""), part = mlm_.dataset_config_name.value_or("");
    return {.base_model = mlm_.model_name_or_path.value_or(""),
            .task = "fill-mask",
            .task_name = "Masked Language Modeling",
            .language = {},
            .dataset = part.empty() ? dataset : dataset + " " + part,
            .dataset_tag = dataset,
            .dataset_args = part};
  }

  /// What messages call the training data: where they are, and what is read of them.
  std::string called() const {
    return fmt::format(
        "{}, {}, {}, {} tokens{}{}", train_.origin, train_.from,
        mlm_.line_by_line ? "each text a sample" : "joined", length_,
        split_ > 0 ? fmt::format(", without the first {}", split_) : "",
        mlm_.max_train_samples ? fmt::format(", the first {} samples", *mlm_.max_train_samples) : "");
  }

  void evaluate(Trainer& trainer, const TokenizedDataset& eval) {
    nlohmann::json metrics = run_.evaluate(trainer, eval, eval.size());
    const double perplexity = std::exp(metrics.at("eval_loss").get<double>());
    metrics["perplexity"] = perplexity;
    run_.report("eval", metrics, metrics);
  }

  /// One of the first texts with a mask in place of a word, as a word of the shell.
  std::string example(const Tokenizer& tokenizer) const {
    constexpr size_t kMost = 20, kFew = 6, kWords = 12;
    const int32_t id = tokenizer.mask_id();
    const std::string mask = tokenizer.decode({&id, 1}, false);
    TextDataset texts;
    const std::vector<std::string_view> usable =
        texts_with_words(std::span(train_.texts).first(std::min(train_.texts.size(), kMost)));
    for (const std::string_view text : usable) {
      std::vector<std::string_view> words = split_words(text);
      if (words.size() < kFew) continue;
      words.resize(std::min(words.size(), kWords));
      words[words.size() / 2] = mask;
      texts.first.push_back(fmt::format("{}", fmt::join(words, " ")));
    }
    if (texts.first.empty()) texts.first.push_back(mask);
    return example_of(texts);
  }

  MlmArguments& mlm_;
  TrainingArguments& training_;
  ScriptRun run_;
  TextFiles train_, eval_;
  int64_t split_ = 0;  ///< so many texts of the training file are validation data
  int length_ = 0;     ///< of a sample at most, in tokens
};

}  // namespace

Command mlm_command() {
  return script_command<Mlm, MlmArguments>(
      "mlm", "run_mlm", "train a masked language model",
      "lathe mlm --model_name_or_path bert-base-cased --train_file texts.txt --max_seq_length 128 \\\n"
      "      --do_train --do_eval --output_dir mine");
}

}  // namespace lathe
