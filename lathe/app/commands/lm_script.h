#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/app/commands/script_run.h"
#include "lathe/data/hub_data.h"
#include "lathe/data/lm/text_files.h"
#include "lathe/train/config/config_overrides.h"

namespace lathe {

/// The share of the scored tokens that are right.
inline MetricValues accuracy_of_tokens(const TokenizedDataset&, const Predictions& p) {
  return {{"accuracy", static_cast<double>(p.correct) / static_cast<double>(p.counted)}};
}

/// What the scripts of language models share, run_mlm.py and run_clm.py: a model that is loaded or new, texts
/// of files, of which the first ones may be validation data, and their perplexity.
template <typename Script>
class LmScript {
 protected:
  LmScript(Terminal& terminal, CommandLine<Script>& line, RunFacts facts, std::shared_ptr<ProcessGroup> group)
      : script_(line.script),
        training_(line.training),
        run_(terminal, line.training, std::move(facts), std::move(group)) {}

  /// How the user calls the model.
  std::string name() const { return script_.model_name_or_path.value_or(script_.config_name.value_or("")); }

  AutoModel make_model(const HubSettings& hub, MakeTask task) {
    const ModelFolders folders = fetch_folders(script_, hub);
    if (script_.model_name_or_path) return loaded(folders, task);
    Tokenizer tokenizer = Tokenizer::load(folders.tokenizer);
    const std::string file = "--model_type " + script_.model_type.value_or("");
    ModelConfig config = script_.config_name
                             ? read_model_config(real_file_system(), folders.config)
                             : parse_model_config(nlohmann::json{{"model_type", *script_.model_type}}, file);
    if (tokenizer.vocab_size() > config.vocab_size) {
      nlohmann::json json = *config.json;
      json["vocab_size"] = tokenizer.vocab_size();
      config = parse_model_config(json, config.file);
    }
    config = with_overrides(config, folders.config_overrides);
    if (tokenizer.vocab_size() > config.vocab_size)
      fail(ErrorCode::kUsage,
           "--config_overrides: found vocab_size={}, expected at least the {} tokens of {}",
           config.vocab_size, tokenizer.vocab_size(), *script_.tokenizer_name);
    AutoModel model = from_config(config, {task, {}, false}, std::move(tokenizer));
    if (script_.use_peft)
      fail(ErrorCode::kUsage, "--use_peft: found no --model_name_or_path: an adapter needs a trained model");
    run_.say(LogLevel::kInfo, fmt::format("a new model, {} with {} layers of {}", config.model_type,
                                          config.num_hidden_layers, config.hidden_size));
    return model;
  }

  AutoModel loaded(const ModelFolders& folders, MakeTask task) {
    AutoModel model =
        load_model(folders, {.task = task, .grows = true}, script_, *script_.model_name_or_path);
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

  /// Files by split.
  SplitFiles find_files(const HubSettings& hub) const {
    if (!script_.dataset_name) {
      SplitFiles files;
      if (script_.train_file) files["train"] = {*script_.train_file};
      if (script_.validation_file) files["validation"] = {*script_.validation_file};
      return files;
    }
    const HubDataset dataset{*script_.dataset_name, script_.dataset_config_name,
                             script_.cache_dir.value_or("")};
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
    const auto percent = static_cast<int>(script_.validation_split_percentage);
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
    read_text_files(paths, out, keeps_line_ends());
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

  static void keep_first(TextRows& rows, int64_t most) {
    if (most >= rows.size()) return;
    rows.begins.resize(static_cast<size_t>(most) + 1);
    rows.ids.resize(static_cast<size_t>(rows.begins.back()));
    rows.special.resize(rows.ids.size());
  }

  void evaluate(Trainer& trainer, const TokenizedDataset& eval) {
    nlohmann::json metrics = run_.evaluate(trainer, eval, eval.size());
    const double perplexity = std::exp(metrics.at("eval_loss").get<double>());
    metrics["perplexity"] = perplexity;
    run_.report("eval", metrics, metrics);
  }

  Script& script_;
  TrainingArguments& training_;
  ScriptRun run_;
  TextFiles train_, eval_;
  int64_t split_ = 0;  ///< so many texts of the training file are validation data

 private:
  bool keeps_line_ends() const {
    if constexpr (requires { script_.keep_linebreaks; }) return script_.keep_linebreaks;
    return false;
  }
};

}  // namespace lathe
