#include "lathe/train/adapter/adapter_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"
#include "lathe/io/safetensors.h"
#include "lathe/models/pretrained.h"
#include "lathe/text/python_format.h"
#include "lathe/train/sentence/saved_sentence.h"

namespace lathe {
namespace {

using Names = std::vector<std::string>;

/// What PEFT's names of parameters begin with.
constexpr const char* kPrefix = "base_model.model.";

/// What PEFT calls a parameter.
std::string peft_name(const AutoModel& model, const nn::Parameter& p) {
  return kPrefix + (gives_vectors(model) ? name_in_transformer(*model.model, p.name) : p.name);
}

std::string task_type_of(HeadKind head) {
  return head == HeadKind::kSequenceClassification ? "SEQ_CLS"
         : head == HeadKind::kTokenClassification  ? "TOKEN_CLS"
         : head == HeadKind::kQuestionAnswering    ? "QUESTION_ANS"
         : head == HeadKind::kSentenceVector       ? "FEATURE_EXTRACTION"
         : head == HeadKind::kCausalLM             ? "CAUSAL_LM"
                                                   : "";
}

/// The heads that PEFT trains whole, by the task.  ModernBERT's head of questions is called classifier.
Names heads_of(const TaskModel& model) {
  const HeadKind head = model.task().head().kind;
  if (model.per_scored() || head == HeadKind::kSentenceVector) return {};
  if (head != HeadKind::kQuestionAnswering) return {"classifier", "score"};
  return {model.find("qa_outputs.weight") >= 0 ? "qa_outputs" : "classifier"};
}

/// The last parts of the names of the layers that can be adapted, each once.
Names short_names(const TaskModel& model, const nn::AdapterOptions& options) {
  nn::AdapterOptions all = options;
  all.targets = nn::linear_layers(model);
  Names names;
  for (const std::string& layer : nn::adapted_layers(model, all)) {
    const std::string name = layer.substr(layer.rfind('.') + 1);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

void check_targets(const AutoModel& model, const Adapter& adapter, bool flags) {
  const nn::AdapterOptions& options = adapter.options;
  const std::string where = flags ? "--lora_target_modules"
                                  : join_path(adapter.folder, kAdapterConfigFile) + ": \"target_modules\"";
  const ErrorCode code = flags ? ErrorCode::kUsage : ErrorCode::kInvalidData;
  const auto there = [&] { return fmt::format("{}", fmt::join(short_names(*model.model, options), ", ")); };
  if (options.targets.empty())
    fail(code, "{}: found none, and PEFT has no default for {}: name layers; this model has {}", where,
         model.config.model_type, there());
  Names unknown;
  for (const std::string& target : options.targets) {
    nn::AdapterOptions one = options;
    one.targets = {target};
    if (nn::adapted_layers(*model.model, one).empty()) unknown.push_back(target);
  }
  if (unknown.size() == options.targets.size() || (flags && !unknown.empty()))
    fail(code, "{}: found {}, which {} no linear layer of this model outside of modules_to_save; it has {}{}",
         where, fmt::join(unknown, ", "), unknown.size() == 1 ? "names" : "name", there(),
         flags ? "" : "; take the model that the adapter was trained on");
}

void check_saved(const AutoModel& model, const Names& given) {
  for (const std::string& name : given) {
    const auto& all = model.model->parameters();
    const bool found = std::any_of(all.begin(), all.end(), [&](const nn::Parameter& p) {
      return p.name.find(name + ".") != std::string::npos;
    });
    if (!found)
      fail(ErrorCode::kUsage, "--lora_modules_to_save: found {}, which names no module of this model", name);
  }
}

SafetensorsFile open_adapter(FileSystem& fs, const std::string& folder) {
  const std::string path = join_path(folder, kAdapterFile);
  if (!fs.exists(path) && fs.exists(join_path(folder, "adapter_model.bin")))
    fail(ErrorCode::kUnsupported,
         "{}: not there, only adapter_model.bin; save the adapter again with a PEFT from 0.6 on", path);
  return SafetensorsFile::open(fs, path);
}

std::string few(const Names& names) {
  constexpr size_t kFew = 4;
  const auto end = names.begin() + static_cast<long>(std::min(names.size(), kFew));
  return fmt::format("{}{}", fmt::join(names.begin(), end, ", "),
                     names.size() > kFew ? fmt::format(" … ({} in all)", names.size()) : "");
}

}  // namespace

void add_adapter(AutoModel& model, Adapter adapter, bool flags) {
  nn::AdapterOptions& options = adapter.options;
  const TaskModel& made = *model.model;
  if (flags) check_saved(model, options.modules_to_save);
  for (const std::string& head : heads_of(made))
    if (std::ranges::find(options.modules_to_save, head) == options.modules_to_save.end())
      options.modules_to_save.push_back(head);
  if (options.targets.empty()) options.targets = default_targets(model.config.model_type);
  if (options.targets == Names{kAllLinear}) {
    options.targets = nn::linear_layers(made);
    options.targets = nn::adapted_layers(made, options);
  }
  if (adapter.task_type.empty()) adapter.task_type = task_type_of(made.task().head().kind);
  check_targets(model, adapter, flags);
  nn::adapt(*model.model, options);
  model.adapter = std::make_shared<const Adapter>(std::move(adapter));
}

ModelFolders folders_of(FileSystem& fs, const std::string& folder,
                        const std::function<std::string(const std::string& base)>& fetch) {
  if (!is_adapter(fs, folder)) return {folder, folder, folder};
  const Adapter adapter = read_adapter_config(fs, folder);
  const std::string path = join_path(folder, kAdapterConfigFile);
  if (adapter.base.empty())
    fail(ErrorCode::kInvalidData,
         "{}: \"base_model_name_or_path\": found none, expected the name or folder of the adapter's model",
         path);
  std::string base;
  try {
    base = fetch(adapter.base);
  } catch (const Error& error) {
    fail(error.code(), "{}: \"base_model_name_or_path\": {}", path, error.what());
  }
  if (is_adapter(fs, base))
    fail(ErrorCode::kUnsupported,
         "{}: \"base_model_name_or_path\": found {}, an adapter itself, expected a model; lathe merge makes "
         "one of it",
         path, adapter.base);
  const auto has = [&](const char* name) { return fs.exists(join_path(folder, name)); };
  ModelFolders folders{base, has("config.json") ? folder : base, base};
  if (has("tokenizer.json") || has("vocab.txt")) folders.tokenizer = folder;
  folders.adapter = folder;
  return folders;
}

ModelConfig config_of_adapter(FileSystem& fs, const std::string& folder, const ModelConfig& base) {
  const Adapter adapter = read_adapter_config(fs, folder);
  HeadKind head = HeadKind::kSequenceClassification;
  for (const HeadKind kind :
       {HeadKind::kTokenClassification, HeadKind::kQuestionAnswering, HeadKind::kCausalLM})
    if (adapter.task_type == task_type_of(kind)) head = kind;
  Names labels;
  if (head != HeadKind::kQuestionAnswering && head != HeadKind::kCausalLM) {
    labels = config_labels(base);
    const SafetensorsFile file = open_adapter(fs, folder);
    for (const char* name : {"classifier.weight", "classifier.out_proj.weight"}) {
      const TensorView* view = file.find(std::string(kPrefix) + name);
      if (view == nullptr || view->shape.empty() || view->shape[0] == std::ssize(labels)) continue;
      labels.clear();
      for (int64_t i = 0; i < view->shape[0]; ++i) labels.push_back(fmt::format("LABEL_{}", i));
    }
  }
  const auto type = value_or<std::string>(*base.json, "problem_type", "", base.file);
  return parse_model_config(config_to_write(base, architecture(base, head), labels, type), base.file);
}

Status write_adapter(FileSystem& fs, const std::string& folder, const AutoModel& model,
                     const Parameters& parameters) {
  TensorSources tensors;
  const auto& all = model.model->parameters();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].trainable)
      tensors[peft_name(model, all[i])] = {DType::f32, all[i].shape,
                                           [&parameters, i](size_t begin, std::span<std::byte> out) {
                                             return parameters.read(static_cast<int>(i), begin, out);
                                           }};
  Status status = write_safetensors(fs, join_path(folder, kAdapterFile), tensors);
  if (status.ok())
    status = fs.write_atomic(join_path(folder, kAdapterConfigFile),
                             python_json(adapter_config_json(*model.adapter), 2));
  for (const char* name : {"model.safetensors", "pytorch_model.bin"})
    if (const std::string path = join_path(folder, name); status.ok() && fs.exists(path))
      status = fs.remove_all(path);
  return status;
}

void load_adapter(FileSystem& fs, const std::string& folder, const AutoModel& model,
                  const std::function<void(int, std::span<const float>)>& write) {
  const std::string path = join_path(folder, kAdapterFile);
  const SafetensorsFile file = open_adapter(fs, folder);
  const auto& all = model.model->parameters();
  std::set<std::string> left(file.names().begin(), file.names().end());
  Names missing;
  for (const nn::Parameter& p : all) {
    if (!p.trainable) continue;
    const std::string name = peft_name(model, p);
    const TensorView* view = file.find(name);
    left.erase(name);
    if (view == nullptr) {
      missing.push_back(name);
      continue;
    }
    if (view->shape != p.shape)
      fail(
          ErrorCode::kInvalidData,
          "{}: tensor {}: found {}, expected {} for r {} and this model; take the {} and the base model that "
          "belong to it",
          path, name, to_string(view->shape), to_string(p.shape), model.adapter->options.rank,
          kAdapterConfigFile);
    check_finite(*view, name, path);
  }
  constexpr const char* kWay = "take the adapter_config.json and the base model that belong to it";
  if (!missing.empty())
    fail(ErrorCode::kInvalidData, "{}: missing: {}, which {} expects of this model; {}", path, few(missing),
         kAdapterConfigFile, kWay);
  if (!left.empty())
    fail(ErrorCode::kInvalidData, "{}: left over: {}, which {} does not expect of this model; {}", path,
         few({left.begin(), left.end()}), kAdapterConfigFile, kWay);
  std::vector<float> room;  // nothing is written before all of it is checked
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].trainable) write(static_cast<int>(i), f32_of(*file.find(peft_name(model, all[i])), room));
}

LoadReport load_weights(FileSystem& fs, const std::string& folder, const AutoModel& model,
                        Parameters& parameters) {
  if (model.adapter) {
    load_adapter(fs, folder, model,
                 [&](int index, std::span<const float> values) { parameters.write(index, values); });
    return {};
  }
  const std::shared_ptr<const Checkpoint> checkpoint = open_saved(fs, folder, model);
  return load_parameters(*model.model, *checkpoint, [&](int index, const TensorView& values) {
    parameters.write(index, values, checkpoint);
  });
}

}  // namespace lathe
