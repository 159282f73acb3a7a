#include "lathe/models/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"
#include "lathe/models/config_messages.h"
#include "lathe/models/family.h"

namespace lathe {
namespace {

// What no model has: so large a number is a damaged file, found before memory and time are spent on it.
constexpr int64_t kMostLayers = 1000, kMostColumns = 1'000'000, kMostLabels = 1'000'000,
                  kMostRows = 100'000'000;

int64_t positive(const nlohmann::json& json, const char* key, int64_t fallback, int64_t most,
                 const std::string& file) {
  const int64_t value = value_or<int64_t>(json, key, fallback, file);
  if (value <= 0 || value > most)
    fail(ErrorCode::kInvalidData, "{}: \"{}\" is {}, expected 1 to {}; {}", file, key, value, most,
         kTakeSavedConfig);
  return value;
}

double probability(const nlohmann::json& json, const char* key, double fallback, const std::string& file) {
  const double value = value_or<double>(json, key, fallback, file);
  if (!(value >= 0 && value < 1))
    fail(ErrorCode::kInvalidData, "{}: \"{}\" is {}, expected a probability: 0 or more, below 1", file, key,
         value);
  return value;
}

double not_negative(const nlohmann::json& json, const char* key, double fallback, const std::string& file) {
  const double value = value_or<double>(json, key, fallback, file);
  if (!(value >= 0))
    fail(ErrorCode::kInvalidData, "{}: \"{}\" is {}, expected 0 or more; {}", file, key, value,
         kTakeSavedConfig);
  return value;
}

void check_supported(const nlohmann::json& json, const Family& family, const std::string& file) {
  const auto only = [&](const char* key, const char* wanted) {
    const std::string found = value_or<std::string>(json, key, wanted, file);
    if (found != wanted)
      fail(ErrorCode::kUnsupported,
           "{}: \"{}\" is \"{}\", expected \"{}\": Lathe has no other so far; take a model that has it", file,
           key, found, wanted);
  };
  only("position_embedding_type", "absolute");
  if (family.decoder == nullptr && value_or<bool>(json, "is_decoder", false, file))
    fail(ErrorCode::kUnsupported,
         "{}: \"is_decoder\" is true, expected false: Lathe trains \"{}\" as an encoder; take one", file,
         family.model_type);
  for (const auto& [key, wanted] : family.flags)
    if (value_or<bool>(json, key, wanted, file) != wanted)
      fail(ErrorCode::kUnsupported,
           "{}: \"{}\" is {}, expected {}: Lathe has no other so far; take a model that has it", file, key,
           !wanted, wanted);
  const bool decodes = family.decoder != nullptr;
  const std::vector<std::string> known =
      decodes ? std::vector<std::string>{"silu", "gelu", "gelu_pytorch_tanh"}
              : std::vector<std::string>{"gelu", "gelu_python", "relu", "tanh"};
  const std::string act =
      value_or<std::string>(json, family.keys.hidden_act, family.defaults.hidden_act, file);
  if (std::find(known.begin(), known.end(), act) == known.end())
    fail(ErrorCode::kUnsupported,
         "{}: \"{}\" is \"{}\", expected {}: Lathe has no other so far; take a model that has one of them",
         file, family.keys.hidden_act, act,
         decodes ? "silu, gelu or gelu_pytorch_tanh" : "gelu, gelu_python, relu or tanh");
}

constexpr int64_t kNoToken = -1;

int64_t padding_of(const nlohmann::json& json, int64_t fallback, const std::string& file) {
  const bool none = json.contains("pad_token_id") && json["pad_token_id"].is_null();
  return none ? kNoToken : value_or<int64_t>(json, "pad_token_id", fallback, file);
}

void check_sizes(const ModelConfig& c, const Family& family) {
  if (family.decoder != nullptr) return;  // its heads have a width of their own
  const char *columns = family.keys.hidden_size, *heads = family.keys.num_attention_heads;
  if (c.hidden_size % c.num_attention_heads != 0)
    fail(ErrorCode::kInvalidData, "{}: \"{}\" is {}, expected a multiple of \"{}\", {}; {}", c.file, columns,
         c.hidden_size, heads, c.num_attention_heads, kTakeSavedConfig);
  if (c.hidden_size / c.num_attention_heads > 256)
    fail(ErrorCode::kUnsupported,
         "{}: \"{}\" {} over \"{}\" {} are heads of {} columns, expected at most 256; take a model with more "
         "heads",
         c.file, columns, c.hidden_size, heads, c.num_attention_heads, c.hidden_size / c.num_attention_heads);
  if (!family.positions_after_padding) return;
  if (c.pad_token_id < 0 || c.pad_token_id >= c.max_position_embeddings - 1)
    fail(ErrorCode::kInvalidData,
         "{}: \"pad_token_id\" is {}, expected 0 or more and below the {} positions, which are numbered "
         "after it; {}",
         c.file, c.pad_token_id == kNoToken ? "null" : std::to_string(c.pad_token_id),
         c.max_position_embeddings, kTakeSavedConfig);
}

/// What files mostly leave out stands there only where reading them would give something else: in a
/// configuration that a program made or changed.
void put_others(nlohmann::json& json, const ModelConfig& config, const Family& family) {
  // A file's list of layers is that of another number of them.
  if (const auto types = json.find("layer_types"); (family.modern || family.decoder != nullptr) &&
                                                   types != json.end() &&
                                                   std::ssize(*types) != config.num_hidden_layers)
    json.erase(types);
  if (family.decoder != nullptr && config.hidden_size % config.num_attention_heads != 0)
    json["head_dim"] = config.decoder.head_width;  // there is no other width to read
  const ModelConfig there = parse_model_config(json, config.file);
  const auto put = [&](const char* key, double value, double read) {
    if (key != nullptr && value != read) json[key] = value;
  };
  put(family.keys.classifier_dropout, config.classifier_dropout, there.classifier_dropout);
  put(family.keys.qa_dropout, config.qa_dropout, there.qa_dropout);
  if (family.modern) put_modern_bert_config(json, config.modern, there.modern);
  if (family.decoder != nullptr) put_decoder_config(json, config.decoder, there.decoder);
}

}  // namespace

std::shared_ptr<const nlohmann::json> no_json_keys() {
  return std::make_shared<const nlohmann::json>(nlohmann::json::object());
}

ModelConfig parse_model_config(const nlohmann::json& json, const std::string& file) {
  if (!json.is_object())
    fail(ErrorCode::kInvalidData, "{}: found no JSON object, expected one; {}", file, kTakeSavedConfig);
  const Family& family = family_of(value_or<std::string>(json, "model_type", "bert", file), file);
  check_supported(json, family, file);
  const ConfigKeys& keys = family.keys;
  ModelConfig c = family.defaults;
  c.json = std::make_shared<const nlohmann::json>(json);
  c.file = file;
  const auto size = [&](int64_t& value, const char* key, int64_t most) {
    if (key != nullptr) value = positive(json, key, value, most, file);
  };
  const auto dropout = [&](double& value, const char* key) {
    if (key != nullptr) value = probability(json, key, value, file);
  };
  size(c.vocab_size, "vocab_size", kMostRows);
  size(c.hidden_size, keys.hidden_size, kMostColumns);
  size(c.embedding_size, keys.embedding_size, kMostColumns);
  size(c.num_hidden_layers, keys.num_hidden_layers, kMostLayers);
  size(c.num_attention_heads, keys.num_attention_heads, kMostColumns);
  size(c.intermediate_size, keys.intermediate_size, kMostColumns);
  size(c.max_position_embeddings, "max_position_embeddings", kMostRows);
  size(c.type_vocab_size, keys.type_vocab_size, kMostRows);
  c.pad_token_id = padding_of(json, c.pad_token_id, file);
  c.hidden_act = value_or<std::string>(json, keys.hidden_act, c.hidden_act, file);
  dropout(c.hidden_dropout_prob, keys.hidden_dropout_prob);
  dropout(c.attention_probs_dropout_prob, keys.attention_probs_dropout_prob);
  if (!family.own_head_dropout) c.classifier_dropout = c.hidden_dropout_prob;
  dropout(c.classifier_dropout, keys.classifier_dropout);
  dropout(c.qa_dropout, keys.qa_dropout);
  dropout(c.mlp_dropout, keys.mlp_dropout);
  c.initializer_range = not_negative(json, "initializer_range", c.initializer_range, file);
  if (keys.layer_norm_eps != nullptr)
    c.layer_norm_eps = not_negative(json, keys.layer_norm_eps, c.layer_norm_eps, file);
  check_sizes(c, family);
  if (family.modern) c.modern = parse_modern_bert_config(json, c);
  if (family.decoder != nullptr) c.decoder = parse_decoder_config(json, c);
  return c;
}

ModelConfig read_model_config(FileSystem& fs, const std::string& folder) {
  const std::string path = join_path(folder, "config.json");
  fs.can_look_for(path).check();
  if (!fs.exists(path))
    fail(ErrorCode::kNotFound,
         "{}: not found; a model folder holds config.json, weights and a tokenizer: copy config.json there "
         "too, or "
         "name another folder",
         path);
  return parse_model_config(read_json(fs, path), path);
}

bool names_labels(const ModelConfig& config) {
  const auto it = config.json->find("id2label");
  return it != config.json->end() && !it->is_null();
}

std::vector<std::string> config_labels(const ModelConfig& config) {
  std::vector<std::string> labels;
  if (!names_labels(config)) {
    const int64_t count = positive(*config.json, "num_labels", 2, kMostLabels, config.file);
    for (int64_t i = 0; i < count; ++i) labels.push_back(fmt::format("LABEL_{}", i));
    return labels;
  }
  const nlohmann::json& names = config.json->at("id2label");
  if (!names.is_object() || names.empty())
    fail(ErrorCode::kInvalidData,
         "{}: \"id2label\" is {}, expected an object that names the labels by id; {}", config.file,
         names.is_object() ? "empty" : fmt::format("of type {}", names.type_name()), kTakeSavedConfig);
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string id = std::to_string(i);
    const auto name = names.find(id);
    if (name != names.end() && name->is_number())
      labels.push_back(name->dump());  // as label2id has it for a key
    else if (name != names.end() && name->is_boolean())
      labels.push_back(name->get<bool>() ? "True" : "False");  // as data files are read
    else
      labels.push_back(required<std::string>(names, id, config.file + ": \"id2label\""));
  }
  return labels;
}

nlohmann::json config_to_write(const ModelConfig& config, const std::string& architecture,
                               const std::vector<std::string>& labels, const std::string& problem_type) {
  nlohmann::json json = *config.json;
  const Family& family = family_of(config.model_type, config.file);
  const ConfigKeys& keys = family.keys;
  const auto put = [&json](const char* key, const auto& value) {
    if (key != nullptr) json[key] = value;
  };
  json["model_type"] = config.model_type;
  json["architectures"] = {architecture};
  json["vocab_size"] = config.vocab_size;
  put(keys.hidden_size, config.hidden_size);
  put(keys.embedding_size, config.embedding_size);
  put(keys.num_hidden_layers, config.num_hidden_layers);
  put(keys.num_attention_heads, config.num_attention_heads);
  put(keys.intermediate_size, config.intermediate_size);
  json["max_position_embeddings"] = config.max_position_embeddings;
  put(keys.type_vocab_size, config.type_vocab_size);
  if (padding_of(json, family.defaults.pad_token_id, config.file) != config.pad_token_id)
    json["pad_token_id"] =
        config.pad_token_id == kNoToken ? nlohmann::json() : nlohmann::json(config.pad_token_id);
  put(keys.hidden_act, config.hidden_act);
  put(keys.hidden_dropout_prob, config.hidden_dropout_prob);
  put(keys.attention_probs_dropout_prob, config.attention_probs_dropout_prob);
  put(keys.mlp_dropout, config.mlp_dropout);
  json["initializer_range"] = config.initializer_range;
  put(keys.layer_norm_eps, config.layer_norm_eps);
  json["dtype"] = "float32";
  json.erase("torch_dtype");
  if (!labels.empty()) {
    json["id2label"] = nlohmann::json::object();
    json["label2id"] = nlohmann::json::object();
    for (size_t i = 0; i < labels.size(); ++i) {
      json["id2label"][std::to_string(i)] = labels[i];
      json["label2id"][labels[i]] = i;
    }
    json.erase("num_labels");
  } else if (const auto it = json.find("id2label"); it == json.end() || !it->is_object() || it->size() != 2) {
    // Of the classifier that this was: by them transformers counts the outputs of its head.
    for (const char* key : {"id2label", "label2id", "num_labels"}) json.erase(key);
  }
  if (problem_type.empty())
    json.erase("problem_type");
  else
    json["problem_type"] = problem_type;
  put_others(json, config, family);
  return json;
}

nlohmann::json used_settings(const ModelConfig& config) {
  ModelConfig bare = config;
  bare.json = std::make_shared<const nlohmann::json>(nlohmann::json{{"model_type", config.model_type}});
  nlohmann::json json = config_to_write(bare, "", {}, "");
  const ConfigKeys& keys = family_of(config.model_type, config.file).keys;
  if (keys.classifier_dropout != nullptr)  // else only where it is not hidden_dropout_prob
    json[keys.classifier_dropout] = config.classifier_dropout;
  for (const char* key : {"architectures", "dtype", "initializer_range"}) json.erase(key);  // of new weights
  return json;
}

}  // namespace lathe
