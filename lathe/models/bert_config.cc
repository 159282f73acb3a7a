#include "lathe/models/bert_config.h"

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

int64_t positive(const nlohmann::json& json, const char* key, int64_t fallback, const std::string& file) {
  const int64_t value = value_or<int64_t>(json, key, fallback, file);
  if (value <= 0 || value > (int64_t{1} << 31))
    fail(ErrorCode::kInvalidData, "{}: \"{}\" is {}, wants a positive 32-bit number", file, key, value);
  return value;
}

double probability(const nlohmann::json& json, const char* key, double fallback, const std::string& file) {
  const double value = value_or<double>(json, key, fallback, file);
  if (!(value >= 0 && value < 1))
    fail(ErrorCode::kInvalidData, "{}: \"{}\" is {}, wants a probability in [0, 1)", file, key, value);
  return value;
}

void check_supported(const nlohmann::json& json, const std::string& file) {
  const auto only = [&](const char* key, const char* wanted) {
    const std::string found = value_or<std::string>(json, key, wanted, file);
    if (found != wanted)
      fail(ErrorCode::kUnsupported, "{}: \"{}\" is \"{}\"; Lathe trains models whose {} is \"{}\"", file, key,
           found, key, wanted);
  };
  only("model_type", "bert");
  only("position_embedding_type", "absolute");
  if (value_or<bool>(json, "is_decoder", false, file))
    fail(ErrorCode::kUnsupported, "{}: \"is_decoder\" is true; Lathe trains encoders", file);
  const std::string act = value_or<std::string>(json, "hidden_act", "gelu", file);
  if (act != "gelu" && act != "relu")
    fail(ErrorCode::kUnsupported, "{}: \"hidden_act\" is \"{}\"; known are \"gelu\" and \"relu\"", file, act);
}

}  // namespace

BertConfig parse_bert_config(const nlohmann::json& json, const std::string& file) {
  if (!json.is_object()) fail(ErrorCode::kInvalidData, "{}: wants a JSON object", file);
  check_supported(json, file);
  BertConfig c;
  c.json = json;
  c.vocab_size = positive(json, "vocab_size", c.vocab_size, file);
  c.hidden_size = positive(json, "hidden_size", c.hidden_size, file);
  c.num_hidden_layers = positive(json, "num_hidden_layers", c.num_hidden_layers, file);
  c.num_attention_heads = positive(json, "num_attention_heads", c.num_attention_heads, file);
  c.intermediate_size = positive(json, "intermediate_size", c.intermediate_size, file);
  c.max_position_embeddings = positive(json, "max_position_embeddings", c.max_position_embeddings, file);
  c.type_vocab_size = positive(json, "type_vocab_size", c.type_vocab_size, file);
  c.hidden_act = value_or<std::string>(json, "hidden_act", c.hidden_act, file);
  c.hidden_dropout_prob = probability(json, "hidden_dropout_prob", c.hidden_dropout_prob, file);
  c.attention_probs_dropout_prob =
      probability(json, "attention_probs_dropout_prob", c.attention_probs_dropout_prob, file);
  c.classifier_dropout = probability(json, "classifier_dropout", c.hidden_dropout_prob, file);
  c.initializer_range = value_or<double>(json, "initializer_range", c.initializer_range, file);
  c.layer_norm_eps = value_or<double>(json, "layer_norm_eps", c.layer_norm_eps, file);
  if (c.hidden_size % c.num_attention_heads != 0)
    fail(ErrorCode::kInvalidData, "{}: \"hidden_size\" {} is no multiple of \"num_attention_heads\" {}", file,
         c.hidden_size, c.num_attention_heads);
  if (c.hidden_size / c.num_attention_heads > 256)
    fail(ErrorCode::kUnsupported, "{}: heads of {} columns; at most 256 are supported", file,
         c.hidden_size / c.num_attention_heads);
  return c;
}

std::vector<std::string> config_labels(const BertConfig& config) {
  std::vector<std::string> labels;
  const auto it = config.json.find("id2label");
  if (it == config.json.end() || !it->is_object()) {
    const int64_t count = value_or<int64_t>(config.json, "num_labels", 2, "config.json");
    for (int64_t i = 0; i < count; ++i) labels.push_back(fmt::format("LABEL_{}", i));
    return labels;
  }
  for (size_t i = 0; i < it->size(); ++i)
    labels.push_back(required<std::string>(*it, std::to_string(i), "config.json: \"id2label\""));
  return labels;
}

nlohmann::json config_to_write(const BertConfig& config, const std::string& architecture,
                               const std::vector<std::string>& labels, const std::string& problem_type) {
  nlohmann::json json = config.json;
  json["model_type"] = "bert";
  json["architectures"] = {architecture};
  json["vocab_size"] = config.vocab_size;
  json["hidden_size"] = config.hidden_size;
  json["num_hidden_layers"] = config.num_hidden_layers;
  json["num_attention_heads"] = config.num_attention_heads;
  json["intermediate_size"] = config.intermediate_size;
  json["max_position_embeddings"] = config.max_position_embeddings;
  json["type_vocab_size"] = config.type_vocab_size;
  json["hidden_act"] = config.hidden_act;
  json["hidden_dropout_prob"] = config.hidden_dropout_prob;
  json["attention_probs_dropout_prob"] = config.attention_probs_dropout_prob;
  json["initializer_range"] = config.initializer_range;
  json["layer_norm_eps"] = config.layer_norm_eps;
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
  }
  if (problem_type.empty())
    json.erase("problem_type");
  else
    json["problem_type"] = problem_type;
  return json;
}

}  // namespace lathe
