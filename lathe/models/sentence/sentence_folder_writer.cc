#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/io/safetensors.h"
#include "lathe/models/sentence/sentence_keys.h"
#include "lathe/text/python_format.h"

namespace lathe {
namespace {

using nlohmann::ordered_json;

// The classes of a module's kind in both forms.
std::string class_of(const std::string& kind, SentenceFormat format) {
  if (format == SentenceFormat::kOld) return "sentence_transformers.models." + kind;
  if (kind == "Pooling") return "sentence_transformers.sentence_transformer.modules.pooling.Pooling";
  const char* module = kind == "Transformer" ? "transformer" : kind == "Dense" ? "dense" : "normalize";
  return fmt::format("sentence_transformers.base.modules.{}.{}", module, kind);
}

std::string class_of_activation(const std::string& name) {
  return (name == "Identity" ? "torch.nn.modules.linear." : "torch.nn.modules.activation.") + name;
}

void write_json_file(FileSystem& fs, const std::string& path, const ordered_json& value, int indent) {
  fs.create_directories(parent_folder(path)).check();
  fs.write_atomic(path, python_json(value, indent)).check();
}

ordered_json pooling_json(const PoolingConfig& pooling, SentenceFormat format) {
  ordered_json out;
  if (format == SentenceFormat::kNew) {
    out["embedding_dimension"] = pooling.width;
    if (pooling.modes.size() == 1) out["pooling_mode"] = name_of(pooling.modes[0]);
    if (pooling.modes.size() > 1)
      for (const PoolingMode mode : pooling.modes) out["pooling_mode"].push_back(name_of(mode));
  } else {
    out["word_embedding_dimension"] = pooling.width;
    for (int i = 0; i <= static_cast<int>(PoolingMode::kLastToken); ++i) {
      const auto mode = static_cast<PoolingMode>(i);
      out[old_key_of(mode)] = std::count(pooling.modes.begin(), pooling.modes.end(), mode) > 0;
    }
  }
  out["include_prompt"] = pooling.include_prompt;
  return out;
}

void write_dense(FileSystem& fs, const std::string& folder, const DenseConfig& dense) {
  const ordered_json config = {{"in_features", dense.in},
                               {"out_features", dense.out},
                               {"bias", !dense.bias.empty()},
                               {"activation_function", class_of_activation(dense.activation)},
                               {"module_input_name", "sentence_embedding"},
                               {"module_output_name", "sentence_embedding"}};
  write_json_file(fs, join_path(folder, "config.json"), config, 4);
  TensorMap tensors;
  tensors["linear.weight"] = {DType::f32, {dense.out, dense.in}, std::as_bytes(std::span(dense.weight))};
  if (!dense.bias.empty())
    tensors["linear.bias"] = {DType::f32, {dense.out}, std::as_bytes(std::span(dense.bias))};
  write_safetensors(fs, join_path(folder, "model.safetensors"), tensors, {}).check();
}

void put_prompts(ordered_json& settings, const std::map<std::string, std::string>& prompts,
                 const std::optional<std::string>& default_name) {
  if (default_name) settings["default_prompt_name"] = *default_name;
  settings["prompts"] = ordered_json::object();
  for (const auto& [name, prompt] : prompts) settings["prompts"][name] = prompt;
}

ordered_json module_entry(size_t index, const std::string& path, const std::string& type) {
  return {{"idx", index}, {"name", std::to_string(index)}, {"path", path}, {"type", type}};
}

void write_settings(FileSystem& fs, const std::string& folder, const SentenceFolder& model) {
  ordered_json transformer;
  if (model.max_seq_length) transformer["max_seq_length"] = *model.max_seq_length;
  transformer["do_lower_case"] = model.do_lower_case;
  write_json_file(fs, join_path(folder, "sentence_bert_config.json"), transformer, 4);
  ordered_json settings = {{"default_prompt_name", nullptr}, {"model_type", "SentenceTransformer"}};
  put_prompts(settings, model.prompts, model.default_prompt_name);
  settings["similarity_fn_name"] = model.similarity;
  if (model.truncate_dim) settings["truncate_dim"] = *model.truncate_dim;
  write_json_file(fs, join_path(folder, kSentenceConfigFile), settings, 2);
}

// The old keys say only which modes there are: their vectors stand in the order of the keys.
bool has_order_of_old_keys(const PoolingConfig& pooling) {
  return std::adjacent_find(pooling.modes.begin(), pooling.modes.end(), std::greater_equal<>()) ==
         pooling.modes.end();
}

}  // namespace

void write_sentence_folder(FileSystem& fs, const std::string& folder, const SentenceFolder& model,
                           SentenceFormat format) {
  std::vector<std::pair<std::string, std::string>> modules{{"Transformer", ""}, {"Pooling", "1_Pooling"}};
  const auto pooling_format = has_order_of_old_keys(model.pooling) ? format : SentenceFormat::kNew;
  write_json_file(fs, join_path(folder, "1_Pooling/config.json"), pooling_json(model.pooling, pooling_format),
                  4);
  for (const SentenceStep& step : model.steps) {
    const std::string kind = step.dense ? "Dense" : "Normalize";
    const std::string path = fmt::format("{}_{}", modules.size(), kind);
    modules.emplace_back(kind, path);
    if (step.dense) {
      write_dense(fs, join_path(folder, path), *step.dense);
    } else {
      const ordered_json names = {{"module_input_name", "sentence_embedding"},
                                  {"module_output_name", "sentence_embedding"}};
      write_json_file(fs, join_path(folder, path + "/config.json"), names, 4);
    }
  }
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < modules.size(); ++i)
    list.push_back(module_entry(i, modules[i].second, class_of(modules[i].first, format)));
  write_settings(fs, folder, model);
  write_json_file(fs, join_path(folder, "modules.json"), list, 2);
}

std::vector<std::pair<std::string, std::string>> cross_encoder_files(const CrossEncoderFolder& model) {
  const ordered_json text = {{"method", "forward"}, {"method_output_name", "logits"}};
  const ordered_json transformer = {{"transformer_task", "sequence-classification"},
                                    {"modality_config", {{"text", text}}},
                                    {"module_output_name", "scores"}};
  ordered_json settings = {{"activation_fn", class_of_activation(model.activation)},
                           {"default_prompt_name", nullptr},
                           {"model_type", "CrossEncoder"}};
  put_prompts(settings, model.prompts, model.default_prompt_name);
  ordered_json list = ordered_json::array();
  list.push_back(module_entry(0, "", class_of("Transformer", SentenceFormat::kNew)));
  return {{"sentence_bert_config.json", python_json(transformer, 4)},
          {kSentenceConfigFile, python_json(settings, 2)},
          {"modules.json", python_json(list, 2)}};
}

void write_cross_encoder_folder(FileSystem& fs, const std::string& folder, const CrossEncoderFolder& model) {
  fs.create_directories(folder).check();
  for (const auto& [name, content] : cross_encoder_files(model))
    fs.write_atomic(join_path(folder, name), content).check();
}

}  // namespace lathe
