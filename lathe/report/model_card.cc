#include "lathe/report/model_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

#include "lathe/core/version.h"
#include "lathe/io/file_system.h"
#include "lathe/text/python_format.h"
#include "lathe/train/log_format.h"

namespace lathe {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::vector<std::pair<std::string, std::string>>;

constexpr std::array<std::string_view, 11> kMetricTags = {
    "accuracy",  "bleu",      "f1", "matthews_correlation", "pearsonr", "precision", "recall", "rouge",
    "sacrebleu", "spearmanr", "wer"};  // those that the Hub knows

/// A number with at most four decimals, anything else as Python prints it.
std::string rounded(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : python_repr(value);
  const size_t point = text.find('.');
  const bool is_long = value.is_number_float() && point != text.npos && text.size() - point - 1 > 4;
  return is_long ? fmt::format("{:.4f}", value.get<double>()) : text;
}

/// "eval_combined_score" → "Combined Score"
std::string title_of(std::string key) {
  key = key.substr(std::string_view("eval_").size());
  for (size_t i = 0; i < key.size(); ++i) {
    if (key[i] == '_') key[i] = ' ';
    if (i == 0 || key[i - 1] == ' ')
      key[i] = static_cast<char>(std::toupper(static_cast<unsigned char>(key[i])));
  }
  return key;
}

constexpr const char* kTokens = "num_input_tokens_seen";

/// What the last evaluation of a run found, by title.
std::vector<std::pair<std::string, Json>> last_evaluation(const TrainerState& state) {
  std::vector<std::pair<std::string, Json>> found;
  for (auto entry = state.log_history.rbegin(); entry != state.log_history.rend() && found.empty(); ++entry) {
    for (const auto& [key, value] : entry->items())
      if (is_score_key(key)) found.emplace_back(title_of(key), value);
    if (!found.empty() && entry->contains(kTokens))
      found.emplace_back("Num Input Tokens Seen", (*entry)[kTokens]);
  }
  // The loss comes first, as in Python, where it is the first to be known.
  std::stable_partition(found.begin(), found.end(), [](const auto& f) { return f.first == "Loss"; });
  return found;
}

/// A plain scalar of YAML, quoted where it could be read as something else.
std::string yaml(const std::string& text) {
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  const auto inner = [&](char c) { return plain(c) || c == '-' || c == '.' || c == '/' || c == ' '; };
  const bool word = !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) != 0 &&
                    plain(text.back()) && std::all_of(text.begin(), text.end(), inner);
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::array<std::string_view, 8> kWords = {"true", "false", "yes", "no", "on", "off", "null", "y"};
  if (word && std::find(kWords.begin(), kWords.end(), lower) == kWords.end() && lower != "n") return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted + "'";
}

std::string metadata(const CardFacts& facts, const std::string& name, const TrainerState& state) {
  std::string out = fmt::format("library_name: {}\n", facts.adapter ? "peft" : facts.library);
  if (!facts.pipeline_tag.empty()) out += fmt::format("pipeline_tag: {}\n", facts.pipeline_tag);
  const auto list = [&out](const char* key, const std::string& value) {
    if (!value.empty()) out += fmt::format("{}:\n- {}\n", key, yaml(value));
  };
  list("language", facts.language);
  if (facts.on_hub) out += fmt::format("base_model: {}\n", yaml(facts.base_model));
  list("tags",
       facts.adapter && facts.on_hub ? "base_model:adapter:" + facts.base_model : "generated_from_trainer");
  if (facts.adapter && facts.on_hub) out += "- generated_from_trainer\n";
  if (facts.adapter) out += "- lora\n- transformers\n";
  for (const std::string& tag : facts.tags) out += fmt::format("- {}\n", yaml(tag));
  list("datasets", facts.dataset_tag);
  std::string tags, results;
  for (const auto& [title, value] : last_evaluation(state)) {
    std::string tag = title;
    std::transform(tag.begin(), tag.end(), tag.begin(),
                   [](unsigned char c) { return c == ' ' ? '_' : static_cast<char>(std::tolower(c)); });
    if (std::find(kMetricTags.begin(), kMetricTags.end(), tag) == kMetricTags.end()) continue;
    tags += fmt::format("- {}\n", tag);
    results +=
        fmt::format("    - name: {}\n      type: {}\n      value: {}\n", title, tag, python_repr(value));
  }
  if (!tags.empty()) out += "metrics:\n" + tags;
  out += fmt::format("model-index:\n- name: {}\n", yaml(name));
  if (facts.task.empty() || facts.dataset_tag.empty() || results.empty()) return out + "  results: []\n";
  out += fmt::format("  results:\n  - task:\n      name: {}\n      type: {}\n", facts.task_name, facts.task);
  out += fmt::format("    dataset:\n      name: {}\n      type: {}\n", yaml(facts.dataset),
                     yaml(facts.dataset_tag));
  if (!facts.dataset_args.empty()) out += fmt::format("      args: {}\n", yaml(facts.dataset_args));
  return out + "    metrics:\n" + results;
}

std::string optimizer_text(const TrainingArguments& args) {
  std::string name = "OptimizerNames.";  // as Python prints its enumeration
  for (const char c : args.optim) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const std::string more = args.optim_args.value_or("No additional optimizer arguments");
  if (args.optim.find("adam") == args.optim.npos)
    return fmt::format("Use {} and the args are:\n{}", name, more);
  return fmt::format("Use {} with betas=({},{}) and epsilon={} and optimizer_args={}", name,
                     python_repr(args.adam_beta1), python_repr(args.adam_beta2),
                     python_repr(args.adam_epsilon), more);
}

std::string hyperparameters(const TrainingArguments& args, int ranks) {
  std::string out;
  const auto say = [&out](const char* name, const auto& value) {
    out += fmt::format("- {}: {}\n", name, value);
  };
  const int64_t batch = args.per_device_train_batch_size, steps = args.gradient_accumulation_steps;
  say("learning_rate", python_repr(args.learning_rate));
  if (args.head_learning_rate) say("head_learning_rate", python_repr(*args.head_learning_rate));
  say("train_batch_size", batch);
  say("eval_batch_size", args.per_device_eval_batch_size);
  say("seed", args.seed);
  if (ranks > 1) say("distributed_type", "multi-GPU"), say("num_devices", ranks);
  if (steps > 1) say("gradient_accumulation_steps", steps);
  if (ranks * steps > 1) say("total_train_batch_size", batch * ranks * steps);
  if (ranks > 1) say("total_eval_batch_size", args.per_device_eval_batch_size * ranks);
  say("optimizer", optimizer_text(args));
  say("lr_scheduler_type", args.lr_scheduler_type);
  const double warmup = args.warmup_steps != 0 ? args.warmup_steps : args.warmup_ratio;
  if (warmup != 0) say("lr_scheduler_warmup_steps", python_repr(warmup));
  if (args.max_steps > 0)
    say("training_steps", args.max_steps);
  else
    say("num_epochs", python_repr(args.num_train_epochs));
  if (args.fp16) say("mixed_precision_training", "Native AMP");
  if (args.label_smoothing_factor != 0)
    say("label_smoothing_factor", python_repr(args.label_smoothing_factor));
  return out;
}

/// One row per evaluation before the end of training, under titles.
std::vector<Row> evaluations(const TrainerState& state) {
  std::vector<Row> rows;
  std::string loss = "No log";
  for (const Json& entry : state.log_history) {
    if (entry.contains("train_loss")) break;  // train_runtime may stand in every line of the log
    if (entry.contains("loss")) loss = rounded(entry["loss"]);
    if (!entry.contains("eval_loss")) continue;
    Row row = {{"Training Loss", loss},
               {"Epoch", rounded(entry["epoch"])},
               {"Step", rounded(entry["step"])},
               {"Validation Loss", rounded(entry["eval_loss"])}};
    for (const auto& [key, value] : entry.items())
      if (is_score_key(key) && key != "eval_loss") row.emplace_back(title_of(key), rounded(value));
    if (entry.contains(kTokens)) row.emplace_back("Input Tokens Seen", rounded(entry[kTokens]));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string markdown_table(const std::vector<Row>& rows) {
  if (rows.empty()) return "";
  std::string names, rule, body;
  std::vector<size_t> widths;
  for (size_t column = 0; column < rows[0].size(); ++column) {
    size_t width = rows[0][column].first.size();
    for (const Row& row : rows)
      if (column < row.size()) width = std::max(width, row[column].second.size());
    widths.push_back(width);
    names += fmt::format("| {:<{}} ", rows[0][column].first, width);
    rule += "|:" + std::string(width, '-') + ":";
  }
  for (const Row& row : rows) {
    for (size_t column = 0; column < std::min(row.size(), widths.size()); ++column)
      body += fmt::format("| {:<{}} ", row[column].second, widths[column]);
    body += "|\n";
  }
  return names + "|\n" + rule + "|\n" + body;
}

}  // namespace

std::string model_card(const CardFacts& facts, const TrainingArguments& args, const TrainerState& state,
                       int ranks) {
  const std::string name = file_name(args.output_dir.value_or("model"));
  std::string out = "---\n" + metadata(facts, name, state) + "---\n\n";
  out +=
      "<!-- This model card has been generated automatically according to the information the Trainer had "
      "access "
      "to. You\nshould probably proofread and complete it, then remove this comment. -->\n";
  out += fmt::format("\n# {}\n\nThis model ", name);
  out += facts.base_model.empty() ? "was trained from scratch"
         : facts.on_hub
             ? fmt::format("is a fine-tuned version of [{0}](https://huggingface.co/{0})", facts.base_model)
             : "is a fine-tuned version of " + facts.base_model;
  out +=
      facts.dataset.empty() ? " on an unknown dataset." : fmt::format(" on the {} dataset.", facts.dataset);
  if (const auto found = last_evaluation(state); !found.empty()) {
    out += "\nIt achieves the following results on the evaluation set:";
    for (const auto& [title, value] : found) out += fmt::format("\n- {}: {}", title, rounded(value));
  }
  out +=
      "\n\n## Model description\n\nMore information needed\n"
      "\n## Intended uses & limitations\n\nMore information needed\n"
      "\n## Training and evaluation data\n\nMore information needed\n"
      "\n## Training procedure\n\n### Training hyperparameters\n"
      "\nThe following hyperparameters were used during training:\n";
  out += hyperparameters(args, ranks);
  out += "\n### Training results\n\n" + markdown_table(evaluations(state));
  return out + fmt::format("\n\n### Framework versions\n\n- Lathe {}\n", kVersion);
}

}  // namespace lathe
