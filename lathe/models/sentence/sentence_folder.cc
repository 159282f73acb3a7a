#include "lathe/models/sentence/sentence_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"
#include "lathe/io/model_folder.h"
#include "lathe/models/sentence/sentence_keys.h"

namespace lathe {
namespace {

using nlohmann::json;

constexpr const char* kModulesFile = "modules.json";
constexpr std::array<const char*, 4> kDenseActivations = {"Tanh", "Identity", "ReLU", "GELU"};
constexpr std::array<const char*, 2> kScoreActivations = {"Sigmoid", "Identity"};
// Of older versions, by the family of the model.
constexpr std::array<const char*, 7> kTransformerFiles = {
    "sentence_bert_config.json",      "sentence_roberta_config.json", "sentence_distilbert_config.json",
    "sentence_camembert_config.json", "sentence_albert_config.json",  "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json"};

std::string last_name(const std::string& type) { return type.substr(type.rfind('.') + 1); }

std::string known_activation(std::span<const char* const> known, const std::string& type,
                             const std::string& file) {
  const std::string name = last_name(type);
  if (type.starts_with("torch.nn.") && std::count(known.begin(), known.end(), name) > 0) return name;
  fail(ErrorCode::kUnsupported,
       "{}: activation \"{}\": Lathe knows torch.nn's {}: take a model with one of them", file, type,
       fmt::join(known, ", "));
}

PoolingConfig parse_pooling(const json& config, const std::string& file) {
  PoolingConfig out;
  const char* key = config.is_object() && config.contains("embedding_dimension") ? "embedding_dimension"
                                                                                 : "word_embedding_dimension";
  out.width = required<int64_t>(config, key, file);
  if (out.width < 1)
    fail(ErrorCode::kInvalidData, "{}: \"{}\": found {}, expected 1 or more", file, key, out.width);
  out.modes = pooling_modes_of(config, file);
  out.include_prompt = value_or<bool>(config, "include_prompt", true, file);
  return out;
}

std::vector<float> dense_weights(const Checkpoint& checkpoint, const char* name, const Shape& shape,
                                 const std::string& file) {
  const TensorView* view = checkpoint.find(name);
  if (view == nullptr) fail(ErrorCode::kInvalidData, "{}: no tensor {}, expected it of a Dense", file, name);
  return floats_of(*view, shape, file + ": " + name);
}

DenseConfig read_dense(FileSystem& fs, const std::string& folder) {
  const std::string file = join_path(folder, "config.json");
  const json config = read_json(fs, file);
  DenseConfig out;
  out.in = required<int64_t>(config, "in_features", file);
  out.out = required<int64_t>(config, "out_features", file);
  if (out.in < 1 || out.out < 1)
    fail(ErrorCode::kInvalidData, "{}: found {} in_features and {} out_features, expected 1 or more", file,
         out.in, out.out);
  out.activation = known_activation(
      kDenseActivations,
      value_or<std::string>(config, "activation_function", "torch.nn.modules.activation.Tanh", file), file);
  for (const char* key : {"module_input_name", "module_output_name"})
    if (const auto name = value_or<std::string>(config, key, "sentence_embedding", file);
        name != "sentence_embedding")
      fail(ErrorCode::kUnsupported, "{}: \"{}\": found \"{}\", Lathe knows \"sentence_embedding\"", file, key,
           name);
  if (value_or<bool>(config, "use_residual", false, file))
    fail(ErrorCode::kUnsupported, "{}: \"use_residual\": found true, Lathe knows a Dense without it", file);
  const auto checkpoint = open_checkpoint(fs, folder);
  out.weight = dense_weights(*checkpoint, "linear.weight", {out.out, out.in}, folder);
  if (value_or<bool>(config, "bias", true, file))
    out.bias = dense_weights(*checkpoint, "linear.bias", {out.out}, folder);
  return out;
}

struct ModuleEntry {
  std::string kind, path;
};

std::vector<ModuleEntry> parse_modules(const json& modules, const std::string& file) {
  if (!modules.is_array() || modules.empty())
    fail(ErrorCode::kInvalidData, "{}: expected a list of modules", file);
  std::vector<ModuleEntry> out;
  for (const json& module : modules) {
    const auto type = required<std::string>(module, "type", file);
    const auto path = required<std::string>(module, "path", file);
    const std::string kind = last_name(type);
    if (path.starts_with('/') || path.find("..") != std::string::npos || path.find('\0') != std::string::npos)
      fail(ErrorCode::kInvalidData, "{}: \"path\": found \"{}\", expected a folder inside the model's", file,
           path);
    const bool known = kind == "Transformer" || kind == "Pooling" || kind == "Dense" || kind == "Normalize";
    if (!type.starts_with("sentence_transformers.") || !known)
      fail(ErrorCode::kUnsupported,
           "{}: module {} is \"{}\": Lathe knows Transformer, Pooling, Dense and Normalize of "
           "sentence_transformers: take a model made of these, or the folder of its transformer by itself",
           file, out.size(), type);
    out.push_back({kind, path});
  }
  return out;
}

void read_steps(FileSystem& fs, const std::string& folder, const std::vector<ModuleEntry>& modules,
                const std::string& file, SentenceFolder& out) {
  if (modules.size() < 2 || modules[0].kind != "Transformer" || modules[1].kind != "Pooling")
    fail(ErrorCode::kUnsupported, "{}: expected a Transformer, then a Pooling, as the first modules", file);
  out.transformer_path = modules[0].path;
  const std::string pooling = join_path(join_path(folder, modules[1].path), "config.json");
  out.pooling = parse_pooling(read_json(fs, pooling), pooling);
  int64_t width = out.pooling.output_width();
  for (size_t i = 2; i < modules.size(); ++i) {
    if (modules[i].kind != "Dense" && modules[i].kind != "Normalize")
      fail(ErrorCode::kUnsupported, "{}: module {} is a second {}, expected Dense or Normalize there", file,
           i, modules[i].kind);
    SentenceStep& step = out.steps.emplace_back();
    if (modules[i].kind == "Normalize") continue;
    step.dense = read_dense(fs, join_path(folder, modules[i].path));
    if (step.dense->in != width)
      fail(ErrorCode::kInvalidData,
           "{}: module {} takes vectors of {} numbers, expected {}, as those before it give", file, i,
           step.dense->in, width);
    width = step.dense->out;
  }
}

void read_transformer_config(FileSystem& fs, const std::string& folder, SentenceFolder& out) {
  for (const char* name : kTransformerFiles) {
    const std::string file = join_path(folder, name);
    if (!fs.exists(file)) continue;
    const json config = read_json(fs, file);
    const auto length = value_or<int64_t>(config, "max_seq_length", 0, file);
    if (length < 0)
      fail(ErrorCode::kInvalidData, "{}: \"max_seq_length\": found {}, expected 1 or more", file, length);
    if (length > 0) out.max_seq_length = length;
    out.do_lower_case = value_or<bool>(config, "do_lower_case", false, file);
    return;
  }
}

}  // namespace

bool is_sentence_folder(FileSystem& fs, const std::string& folder) {
  return fs.exists(join_path(folder, kModulesFile));
}

SentenceFolder read_sentence_folder(FileSystem& fs, const std::string& folder) {
  SentenceFolder out;
  const std::string modules = join_path(folder, kModulesFile);
  read_steps(fs, folder, parse_modules(read_json(fs, modules), modules), modules, out);
  read_transformer_config(fs, join_path(folder, out.transformer_path), out);
  const std::string file = join_path(folder, kSentenceConfigFile);
  if (!fs.exists(file)) return out;
  const json config = read_json(fs, file);
  out.prompts = prompts_of(config, file, out.default_prompt_name);
  out.similarity = value_or<std::string>(config, "similarity_fn_name", "cosine", file);
  const auto dim = value_or<int64_t>(config, "truncate_dim", 0, file);
  if (dim > 0) out.truncate_dim = dim;
  return out;
}

bool is_cross_encoder_folder(FileSystem& fs, const std::string& folder) {
  if (const std::string file = join_path(folder, kSentenceConfigFile); fs.exists(file))
    return value_or<std::string>(read_json(fs, file), "model_type", "", file) == "CrossEncoder";
  const std::string file = join_path(folder, "config.json");
  if (!fs.exists(file)) return false;
  const json config = read_json(fs, file);
  return config.contains("sbert_ce_default_activation_function") || config.contains("sentence_transformers");
}

CrossEncoderFolder read_cross_encoder_folder(FileSystem& fs, const std::string& folder, int64_t labels) {
  CrossEncoderFolder out{
      .activation = labels == 1 ? "Sigmoid" : "Identity", .prompts = {}, .default_prompt_name = {}};
  const std::string file = join_path(folder, "config.json");
  const json config = read_json(fs, file);
  std::string type = value_or<std::string>(config, "sbert_ce_default_activation_function", "", file);
  const json inner = value_or<json>(config, "sentence_transformers", json::object(), file);
  type = value_or<std::string>(inner, "activation_fn", type, file);
  std::string from = file;
  if (const std::string newer = join_path(folder, kSentenceConfigFile); fs.exists(newer)) {
    const json settings = read_json(fs, newer);
    out.prompts = prompts_of(settings, newer, out.default_prompt_name);
    const auto there = value_or<std::string>(settings, "activation_fn", "", newer);
    if (!there.empty()) type = there, from = newer;
  }
  if (!type.empty()) out.activation = known_activation(kScoreActivations, type, from);
  return out;
}

}  // namespace lathe
