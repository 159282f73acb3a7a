#include "lathe/models/bert_config.h"

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

// What the shapes of the weights need: the two files belong together.
constexpr const char* kWayOut = "take the config.json that was saved with the weights";

int64_t positive(const nlohmann::json& json, const char* key, int64_t fallback, const std::string& file) {
  const int64_t value = value_or<int64_t>(json, key, fallback, file);
  if (value <= 0 || value > (int64_t{1} << 31))
    fail(ErrorCode::kInvalidData, "{}: \"{}\" is {}, wants 1 to 2147483648; {}", file, key, value, kWayOut);
  return value;
}

double probability(const nlohmann::json& json, const char* key, double fallback, const std::string& file) {
  const double value = value_or<double>(json, key, fallback, file);
  if (!(value >= 0 && value < 1))
    fail(ErrorCode::kInvalidData, "{}: \"{}\" is {}, wants a probability: 0 or more, below 1", file, key,
         value);
  return value;
}

double not_negative(const nlohmann::json& json, const char* key, double fallback, const std::string& file) {
  const double value = value_or<double>(json, key, fallback, file);
  if (!(value >= 0))
    fail(ErrorCode::kInvalidData, "{}: \"{}\" is {}, wants 0 or more; {}", file, key, value, kWayOut);
  return value;
}

void check_supported(const nlohmann::json& json, const std::string& file) {
  const auto only = [&](const char* key, const char* wanted) {
    const std::string found = value_or<std::string>(json, key, wanted, file);
    if (found != wanted)
      fail(ErrorCode::kUnsupported,
           "{}: \"{}\" is \"{}\", wants \"{}\": Lathe has no other so far; take a model that has it", file,
           key, found, wanted);
  };
  only("model_type", "bert");
  only("position_embedding_type", "absolute");
  if (value_or<bool>(json, "is_decoder", false, file))
    fail(ErrorCode::kUnsupported, "{}: \"is_decoder\" is true, wants false: Lathe trains encoders; take one",
         file);
  const std::string act = value_or<std::string>(json, "hidden_act", "gelu", file);
  if (act != "gelu" && act != "gelu_python" && act != "relu" && act != "tanh")
    fail(ErrorCode::kUnsupported,
         "{}: \"hidden_act\" is \"{}\", wants gelu, gelu_python, relu or tanh: Lathe has no other so far; "
         "take a "
         "model that has one of them",
         file, act);
}

}  // namespace

BertConfig parse_bert_config(const nlohmann::json& json, const std::string& file) {
  if (!json.is_object())
    fail(ErrorCode::kInvalidData, "{}: found no JSON object, wants one; {}", file, kWayOut);
  check_supported(json, file);
  BertConfig c;
  c.json = json;
  c.file = file;
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
  c.initializer_range = not_negative(json, "initializer_range", c.initializer_range, file);
  c.layer_norm_eps = not_negative(json, "layer_norm_eps", c.layer_norm_eps, file);
  if (c.hidden_size % c.num_attention_heads != 0)
    fail(ErrorCode::kInvalidData,
         "{}: \"hidden_size\" is {}, wants a multiple of \"num_attention_heads\", {}; {}", file,
         c.hidden_size, c.num_attention_heads, kWayOut);
  if (c.hidden_size / c.num_attention_heads > 256)
    fail(ErrorCode::kUnsupported,
         "{}: \"hidden_size\" {} over \"num_attention_heads\" {} are heads of {} columns, wants at most 256; "
         "take a "
         "model with more heads",
         file, c.hidden_size, c.num_attention_heads, c.hidden_size / c.num_attention_heads);
  return c;
}

BertConfig read_bert_config(FileSystem& fs, const std::string& folder) {
  const std::string path = join_path(folder, "config.json");
  if (!fs.exists(path))
    fail(ErrorCode::kNotFound,
         "{}: not found; a model folder holds config.json, weights and a tokenizer: copy config.json there "
         "too, or "
         "name another folder",
         path);
  return parse_bert_config(read_json(fs, path), path);
}

std::vector<std::string> config_labels(const BertConfig& config) {
  std::vector<std::string> labels;
  const auto it = config.json.find("id2label");
  if (it == config.json.end() || !it->is_object()) {
    const int64_t count = value_or<int64_t>(config.json, "num_labels", 2, config.file);
    for (int64_t i = 0; i < count; ++i) labels.push_back(fmt::format("LABEL_{}", i));
    return labels;
  }
  for (size_t i = 0; i < it->size(); ++i)
    labels.push_back(required<std::string>(*it, std::to_string(i), config.file + ": \"id2label\""));
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
