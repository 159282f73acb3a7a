#include "lathe/train/sentence/embed_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"
#include "lathe/models/model_config.h"
#include "lathe/text/python_format.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

using LossKind = SimilarityLoss::Kind;
using Distance = SimilarityLoss::Distance;

constexpr const char* kCached = "CachedMultipleNegativesRankingLoss";

/// The parts of a list with commas between, without blanks around them.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string part = text.substr(begin, end - begin);
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    parts.push_back(std::move(part));
    begin = end + 1;
  }
  return parts;
}

double number_of(const char* flag, const std::string& text) {
  const auto value = parse_double(text);
  if (!value || *value <= 0)
    fail(ErrorCode::kUsage, "--{}: found '{}', expected numbers above 0 with commas between", flag, text);
  return *value;
}

LossKind kind_named(const std::string& name) {
  if (name == kCached) return LossKind::kMultipleNegatives;
  for (const LossKind kind :
       {LossKind::kMultipleNegatives, LossKind::kCosineSimilarity, LossKind::kCoSent, LossKind::kTriplet})
    if (name == name_of(kind)) return kind;
  return LossKind::kContrastive;
}

bool reads_target(LossKind kind) {
  return kind == LossKind::kCosineSimilarity || kind == LossKind::kCoSent || kind == LossKind::kContrastive;
}

LossKind kind_for(const EmbedArguments& args, const TextColumns& columns) {
  if (args.loss) return kind_named(*args.loss);
  if (columns.target_name.empty()) return LossKind::kMultipleNegatives;
  const bool labels = std::all_of(columns.targets.begin(), columns.targets.end(),
                                  [](double target) { return target == 0 || target == 1; });
  return labels ? LossKind::kContrastive : LossKind::kCoSent;
}

std::vector<SimilarityLoss::Width> widths_of(const EmbedArguments& args) {
  std::vector<SimilarityLoss::Width> widths;
  if (!args.matryoshka_dims) {
    if (args.matryoshka_weights)
      fail(ErrorCode::kUsage, "--matryoshka_weights: found without --matryoshka_dims, expected both");
    return widths;
  }
  for (const std::string& part : parts_of(*args.matryoshka_dims))
    widths.push_back({.width = static_cast<int64_t>(number_of("matryoshka_dims", part)), .weight = 1});
  if (args.matryoshka_weights) {
    const std::vector<std::string> weights = parts_of(*args.matryoshka_weights);
    if (weights.size() != widths.size())
      fail(ErrorCode::kUsage, "--matryoshka_weights: found {} weights, expected {}, one for each of {}",
           weights.size(), widths.size(), *args.matryoshka_dims);
    for (size_t i = 0; i < weights.size(); ++i)
      widths[i].weight = number_of("matryoshka_weights", weights[i]);
  }
  std::stable_sort(widths.begin(), widths.end(),
                   [](const auto& a, const auto& b) { return a.width > b.width; });
  return widths;
}

Distance distance_of(const EmbedArguments& args, LossKind kind) {
  const std::string name = args.distance_metric.value_or(kind == LossKind::kTriplet ? "euclidean" : "cosine");
  return name == "euclidean"   ? Distance::kEuclidean
         : name == "manhattan" ? Distance::kManhattan
                               : Distance::kCosine;
}

/// None: it is one prompt for all columns.
std::optional<std::map<std::string, std::string>> prompts_by_column(const std::string& text) {
  if (!text.starts_with("{")) return std::nullopt;
  const auto json = json_or_nothing(text);
  if (!json || !json->is_object())
    fail(ErrorCode::kUsage, "--prompts: found {}, expected a text or a JSON object of texts by columns",
         text);
  std::map<std::string, std::string> prompts;
  for (const auto& [name, prompt] : json->items()) {
    if (!prompt.is_string())
      fail(ErrorCode::kUsage, "--prompts: found {} for '{}', expected a text", prompt.dump(), name);
    prompts[name] = prompt.get<std::string>();
  }
  return prompts;
}

std::vector<PoolingMode> modes_of(const std::string& text) {
  std::vector<PoolingMode> modes;
  for (const std::string& name : parts_of(text)) {
    std::vector<std::string> known;
    size_t before = modes.size();
    for (int i = 0; i <= static_cast<int>(PoolingMode::kLastToken); ++i) {
      const auto mode = static_cast<PoolingMode>(i);
      known.emplace_back(name_of(mode));
      if (name == known.back()) modes.push_back(mode);
    }
    if (modes.size() == before)
      fail(ErrorCode::kUsage, "--pooling_mode: found '{}', expected {}", name, fmt::join(known, ", "));
  }
  return modes;
}

TextColumnRules rules_of_loss(const EmbedArguments& args) {
  TextColumnRules rules;
  if (args.text_column_names) rules.text_names = parts_of(*args.text_column_names);
  rules.target_name = args.label_column_name;
  if (!args.loss) return rules;
  const LossKind kind = kind_named(*args.loss);
  rules.target_needed = reads_target(kind);
  if (kind == LossKind::kTriplet) rules.least_texts = 3;
  if (kind == LossKind::kCosineSimilarity) rules.range = {-1, 1};
  if (kind == LossKind::kContrastive) rules.range = {0, 1};
  return rules;
}

}  // namespace

TextColumnRules column_rules(const EmbedArguments& args, const Table& table, bool learns) {
  const TextColumnRules rules = rules_of_loss(args);
  if (learns) return rules;
  const auto lacks = [&](const std::string& name) { return table.find(name) == nullptr; };
  TextColumnRules any;
  if (std::none_of(rules.text_names.begin(), rules.text_names.end(), lacks))
    any.text_names = rules.text_names;
  if (rules.target_name && !lacks(*rules.target_name)) any.target_name = rules.target_name;
  return any;
}

SimilarityLoss loss_of(const EmbedArguments& args, const TextColumns& columns) {
  SimilarityLoss loss;
  loss.kind = kind_for(args, columns);
  loss.scale = args.scale;
  loss.symmetric = args.symmetric;
  loss.gathers = args.gather_across_devices;
  loss.margin = loss.kind == LossKind::kTriplet ? args.triplet_margin : args.margin;
  loss.distance = distance_of(args, loss.kind);
  loss.mean = args.size_average;
  loss.widths = widths_of(args);
  if (args.loss == kCached) loss.cached = args.mini_batch_size;
  return loss;
}

void find_modules(ModelFolders& folders, const EmbedArguments& args) {
  FileSystem& fs = real_file_system();
  SentenceFolder modules;
  const std::string folder = folders.adapter.empty() ? folders.weights : folders.adapter;
  if (is_sentence_folder(fs, folder)) {
    if (args.pooling_mode)
      fail(ErrorCode::kUsage,
           "--pooling_mode: found {}, but {} has modules.json, which says how tokens become a vector; leave "
           "it out",
           *args.pooling_mode, folder);
    modules = read_sentence_folder(fs, folder);
    folders.sentence = folder;
    if (!modules.transformer_path.empty()) {
      const std::string transformer = join_path(folder, modules.transformer_path);
      for (std::string* path : {&folders.weights, &folders.config, &folders.tokenizer})
        if (*path == folder) *path = transformer;
      modules.transformer_path.clear();
    }
  } else {
    modules.pooling.width = read_model_config(fs, folders.config).hidden_size;
    if (args.pooling_mode) modules.pooling.modes = modes_of(*args.pooling_mode);
  }
  if (args.max_seq_length) modules.max_seq_length = args.max_seq_length;
  folders.modules = std::make_shared<const SentenceFolder>(std::move(modules));
}

/// The loss reads all texts, and finds what it needs in the target.
void check_columns(const SimilarityLoss& loss, const TextColumns& columns) {
  const LossKind kind = loss.kind;
  const size_t texts = columns.texts.size();
  const size_t wanted = kind == LossKind::kTriplet ? 3 : 2;
  if (kind == LossKind::kMultipleNegatives ? texts < wanted : texts != wanted)
    fail(ErrorCode::kInvalidData,
         "{}: found {} columns of texts ('{}'), expected {} for {}; --text_column_names says which they are",
         columns.origin, texts, fmt::join(columns.names, "', '"), wanted, name_of(kind));
  if (reads_target(kind) && columns.target_name.empty())
    fail(ErrorCode::kInvalidData,
         "{}: found the columns '{}', expected one of label, labels, score, scores, too, for {}; "
         "--label_column_name names another",
         columns.origin, fmt::join(columns.names, "', '"), name_of(kind));
  if (kind != LossKind::kContrastive) return;
  const auto of_one = [](double target) { return target >= 0.5; };
  if (std::all_of(columns.targets.begin(), columns.targets.end(), of_one) ||
      std::none_of(columns.targets.begin(), columns.targets.end(), of_one))
    fail(ErrorCode::kInvalidData,
         "{}: column '{}': found only {}, expected pairs of both labels, 0 and 1, for {}; "
         "MultipleNegativesRankingLoss learns from pairs that belong together",
         columns.origin, columns.target_name, of_one(columns.targets.at(0)) ? 1 : 0, name_of(kind));
}

std::vector<std::string> prompts_of(const EmbedArguments& args, const TextColumns& columns) {
  if (!args.prompts) return {};
  const auto by_column = prompts_by_column(*args.prompts);
  std::vector<std::string> prompts(columns.names.size(), by_column ? "" : *args.prompts);
  for (size_t i = 0; by_column && i < prompts.size(); ++i)
    if (const auto found = by_column->find(columns.names[i]); found != by_column->end())
      prompts[i] = found->second;
  return prompts;
}

void check_prompts(const EmbedArguments& args, const std::vector<std::string>& columns) {
  const auto by_column = args.prompts ? prompts_by_column(*args.prompts) : std::nullopt;
  if (!by_column) return;
  for (const auto& [name, prompt] : *by_column)
    if (std::find(columns.begin(), columns.end(), name) == columns.end())
      fail(ErrorCode::kUsage, "--prompts: found the column '{}', but the data have texts in '{}'", name,
           fmt::join(columns, "', '"));
}

}  // namespace lathe
