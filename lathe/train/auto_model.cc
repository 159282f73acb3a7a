#include "lathe/train/auto_model.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <typeinfo>

#include "lathe/core/error.h"
#include "lathe/engine/ranks.h"
#include "lathe/io/json_file.h"
#include "lathe/models/family.h"
#include "lathe/models/new_weights.h"
#include "lathe/models/sentence/sentence_checkpoint.h"
#include "lathe/models/sentence/sentence_folder.h"
#include "lathe/text/python_format.h"
#include "lathe/train/adapter/adapter_model.h"
#include "lathe/train/config/config_overrides.h"
#include "lathe/train/sentence/saved_sentence.h"

namespace lathe {
namespace {

/// Labels must differ in their names: names identify those of data, of predictions, and in label2id.
void check_labels(const std::vector<std::string>& labels, const std::string& origin) {
  std::map<std::string_view, size_t> ids;
  for (size_t id = 0; id < labels.size(); ++id) {
    const auto [known, is_new] = ids.try_emplace(labels[id], id);
    if (!is_new)
      fail(ErrorCode::kInvalidData,
           "{}: \"{}\" is the name of {} and {}, expected a name of its own for each", origin, labels[id],
           known->second, id);
  }
}

/// Refuses a config with more layers than the weights have: they belong to different models, and building
/// thousands of layers takes long.  Weights with names of no layer are reported when they are loaded.
void check_layers(const ModelConfig& config, const Checkpoint& weights, const std::string& folder) {
  const Family& family = family_of(config.model_type, config.file);
  int64_t found = 0;
  for (const std::string& name : weights.names()) {
    const size_t at = name.find(family.layers);
    if (at == std::string::npos) continue;
    const long long number = std::strtoll(name.c_str() + at + std::strlen(family.layers), nullptr, 10);
    found = std::max<int64_t>(found, number < LLONG_MAX ? number + 1 : number);
  }
  if (found > 0 && found < config.num_hidden_layers)
    fail(ErrorCode::kInvalidData,
         "{}: \"{}\" is {}, the weights in {} have {} layers, expected at most as many; take config.json and "
         "weights of one model",
         config.file, family.keys.num_hidden_layers, config.num_hidden_layers, folder, found);
}

AutoModel make(const ModelConfig& config, const HeadOptions& head) {
  AutoModel model;
  model.config = config;
  if (head.task_of(0)->names_labels()) {
    model.labels = head.labels.empty() ? config_labels(config) : head.labels;
    check_labels(model.labels, head.labels.empty() ? config.file + ": \"id2label\"" : "id2label");
  }
  model.model = make_model(config, head.task_of(std::ssize(model.labels)));
  return model;
}

/// A layer that starts anew and that the adapter neither trains nor holds would be another one in each run.
void check_new_weights(const AutoModel& model, const LoadReport& report) {
  for (const int index : report.missing) {
    const nn::Parameter& p = model.model->parameters()[static_cast<size_t>(index)];
    if (p.trainable) continue;
    const std::string module = p.name.substr(0, p.name.rfind('.'));
    fail(ErrorCode::kInvalidData,
         "{}: has no {}; it would start anew, and the adapter would neither train nor hold it: give "
         "--lora_modules_to_save {}, or take a model that has it",
         model.folder, p.name, module.substr(module.rfind('.', module.rfind('.') - 1) + 1));
  }
}

}  // namespace

ModelConfig read_config(FileSystem& fs, const ModelFolders& folders) {
  ModelConfig config = read_model_config(fs, folders.config);
  if (!folders.adapter.empty() && folders.config != folders.adapter)
    config = config_of_adapter(fs, folders.adapter, config);
  config = with_overrides(std::move(config), folders.config_overrides);
  if (folders.modules)
    config.sentence = folders.modules;
  else if (!folders.sentence.empty())
    config.sentence = std::make_shared<SentenceFolder>(read_sentence_folder(fs, folders.sentence));
  return config;
}

AutoModel from_pretrained(FileSystem& fs, const std::string& folder, const HeadOptions& head) {
  return from_pretrained(fs, ModelFolders{folder, folder, folder}, head);
}

AutoModel from_pretrained(FileSystem& fs, const ModelFolders& folders, const HeadOptions& head) {
  ModelConfig config = read_config(fs, folders);
  std::optional<Tokenizer> tokenizer;
  if (!folders.tokenizer.empty()) tokenizer = Tokenizer::load(folders.tokenizer);
  const int64_t stored_tokens = config.vocab_size;
  const bool grows = head.grows && tokenizer && tokenizer->vocab_size() > stored_tokens;
  if (grows) config = with_overrides(config, fmt::format("vocab_size={}", tokenizer->vocab_size()));
  std::unique_ptr<Checkpoint> weights;
  if (!folders.weights.empty()) {
    weights = open_checkpoint(fs, folders.weights);
    check_layers(config, *weights, folders.weights);
    if (config.sentence) weights = with_dense_weights(std::move(weights), config.sentence, folders.sentence);
  }
  AutoModel model = make(config, head);
  model.folder = folders.weights;
  model.ignore_mismatched_sizes = head.ignore_mismatched_sizes;
  if (grows) model.stored_tokens = stored_tokens;
  model.checkpoint = std::move(weights);
  if (model.checkpoint) note_storage(*model.model, *model.checkpoint);
  if (!folders.adapter.empty()) add_adapter(model, read_adapter_config(fs, folders.adapter), false);
  if (!tokenizer) return model;
  model.tokenizer = std::move(tokenizer);
  if (model.tokenizer->vocab_size() > model.config.vocab_size)
    fail(ErrorCode::kInvalidData,
         "{}: \"vocab_size\" is {}, expected at least the {} tokens of the tokenizer {}; take config.json, "
         "weights and tokenizer of one model",
         model.config.file, model.config.vocab_size, model.tokenizer->vocab_size(),
         folders.tokenizer == folders.config ? "beside it" : "in " + folders.tokenizer);
  return model;
}

AutoModel from_config(const ModelConfig& config, const HeadOptions& head,
                      std::optional<Tokenizer> tokenizer) {
  // What is saved must be readable again.
  const TaskPtr task = head.task_of(std::ssize(head.labels));
  parse_model_config(
      config_to_write(config, architecture(config, task->head().kind), head.labels, task->problem_type()),
      config.file);
  AutoModel model = make(config, head);
  model.tokenizer = std::move(tokenizer);
  return model;
}

namespace {

/// The model that the configuration makes; null if the given one is of another class.
std::unique_ptr<TaskModel> made_again(const AutoModel& model) {
  try {
    auto twin = make_model(model.config, model.model->shared_task());
    const TaskModel &made = *twin, &given = *model.model;
    return typeid(made) == typeid(given) ? std::move(twin) : nullptr;
  } catch (const Error&) {
    return nullptr;  // the configuration names no family
  }
}

}  // namespace

bool is_programs_own(const AutoModel& model) { return made_again(model) == nullptr; }

AutoModel twin_of(const AutoModel& model) {
  std::unique_ptr<TaskModel> twin = made_again(model);
  if (twin == nullptr)
    fail(ErrorCode::kUnsupported,
         "twin_of: found a model that is a program's own, expected one of from_pretrained or from_config; "
         "make it twice");
  if (model.checkpoint) note_storage(*twin, *model.checkpoint);
  if (model.adapter) nn::adapt(*twin, model.adapter->options);
  return {.folder = model.folder,
          .config = model.config,
          .labels = model.labels,
          .model = std::move(twin),
          .checkpoint = model.checkpoint,
          .tokenizer = model.tokenizer,
          .ignore_mismatched_sizes = model.ignore_mismatched_sizes,
          .stored_tokens = model.stored_tokens,
          .adapter = model.adapter,
          .cross_encoder = model.cross_encoder};
}

void check_padding(const AutoModel& model, const char* it) {
  if (model.tokenizer->pads_left() && !model.config.modern.mean_pooling)  // its mean leaves padding out
    fail(ErrorCode::kUnsupported,
         "tokenizer_config.json: padding_side: found left, with which {} classifies by the padding in front "
         "of a text; Lathe needs right, which is the default",
         it);
}

MakeTask classification_task(const ModelConfig& config) {
  const std::string type = value_or<std::string>(*config.json, "problem_type", "", config.file);
  for (MakeTask task : {multi_label, regression})
    if (type == task(0)->problem_type()) return task;
  return type.empty() && config_labels(config).size() == 1 ? regression : single_label;
}

MakeTask saved_task(const ModelConfig& config) {
  const auto architectures =
      value_or<std::vector<std::string>>(*config.json, "architectures", {}, config.file);
  if (architectures.empty()) return classification_task(config);
  const auto has = [&](HeadKind kind) {
    return std::find(architectures.begin(), architectures.end(), architecture(config, kind)) !=
           architectures.end();
  };
  for (MakeTask task : {question_answering, masked_lm, causal_lm, token_labels, multiple_choice})
    if (has(task(0)->head().kind)) return task;
  if (has(HeadKind::kSequenceClassification)) return classification_task(config);
  fail(ErrorCode::kInvalidData,
       "{}: \"architectures\" names no head that Lathe knows ({}, {}, {}, {}, {}); fine-tune the model first",
       config.file, architecture(config, HeadKind::kSequenceClassification),
       architecture(config, HeadKind::kTokenClassification),
       architecture(config, HeadKind::kQuestionAnswering), architecture(config, HeadKind::kMaskedLM),
       architecture(config, HeadKind::kMultipleChoice));
}

int longest_text(const AutoModel& model) {
  return static_cast<int>(
      std::min<int64_t>(model.tokenizer->model_max_length(), model.model->max_positions()));
}

namespace {

/// What the checkpoint has for fewer tokens than the model: the rows that it lacks are the mean of its own.
/// Source: PreTrainedModel.resize_token_embeddings, whose noise around the mean has 1e-9 of the variance.
void grow(Parameters& parameters, const AutoModel& model, LoadReport& report, Checksum* loaded) {
  std::erase_if(report.mismatched, [&](const LoadReport::Mismatch& m) {
    const nn::Parameter& p = model.model->parameters()[static_cast<size_t>(m.index)];
    const TensorView& stored = *model.checkpoint->find(m.name);
    Shape wanted = p.shape;
    wanted[0] = model.stored_tokens;
    if (p.shape[0] != model.config.vocab_size || stored.shape != wanted) return false;
    check_finite(stored, m.name, model.checkpoint->file_of(m.name));
    std::vector<float> room;
    const std::span<const float> rows = f32_of(stored, room);
    const size_t width = rows.size() / static_cast<size_t>(model.stored_tokens);
    std::vector<double> sum(width);
    for (size_t i = 0; i < rows.size(); ++i) sum[i % width] += rows[i];
    std::vector<float> values(rows.begin(), rows.end());
    for (size_t i = rows.size(); i < static_cast<size_t>(elements(p.shape)); ++i)
      values.push_back(static_cast<float>(sum[i % width] / static_cast<double>(model.stored_tokens)));
    parameters.write(m.index, values);
    if (loaded != nullptr) loaded->add(std::span<const float>(values));
    std::erase(report.missing, m.index);
    return true;
  });
}

/// A new adapter's values, drawn after all others, or those of its folder.
void start_adapter(Parameters& parameters, const AutoModel& model, TorchGenerator& generator,
                   LoadReport& report, Checksum* loaded) {
  check_new_weights(model, report);
  const auto& all = model.model->parameters();
  if (!model.adapter->folder.empty()) {
    load_adapter(real_file_system(), model.adapter->folder, model,
                 [&](int index, std::span<const float> values) {
                   parameters.write(index, values);
                   if (loaded != nullptr) loaded->add(values);
                 });
    const auto is_loaded = [&](int index) { return all[static_cast<size_t>(index)].trainable; };
    std::erase_if(report.missing, is_loaded);
    report.mismatched.clear();
    return;
  }
  std::vector<float> values;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].of_adapter) continue;
    draw_new(all[i], *model.model, model.config, generator, values);
    parameters.write(static_cast<int>(i), values);
  }
}

}  // namespace

LoadReport initialize(Parameters& parameters, const AutoModel& model, uint64_t seed, Checksum* loaded) {
  std::vector<float> values;
  LoadReport report;
  if (model.checkpoint) {
    report = load_parameters(*model.model, *model.checkpoint, [&](int index, const TensorView& stored) {
      parameters.write(index, stored, model.checkpoint);
      if (loaded != nullptr) loaded->add(f32_of(stored, values));
    });
  } else {
    for (size_t i = 0; i < model.model->parameters().size(); ++i)
      if (!model.model->parameters()[i].of_adapter) report.missing.push_back(static_cast<int>(i));
  }
  if (gives_vectors(model))  // saving keeps these
    std::erase_if(report.unexpected, [&](const std::string& name) {
      const std::string own = name_in_transformer(*model.model, name);
      return (own.empty() ? name : own).starts_with(kUnusedByVectors);
    });
  if (model.stored_tokens > 0) grow(parameters, model, report, loaded);
  const bool has_head = model.adapter && !model.adapter->folder.empty();  // of another number of labels
  if (!report.mismatched.empty() && !model.ignore_mismatched_sizes && !has_head) {
    const LoadReport::Mismatch& m = report.mismatched[0];
    fail(ErrorCode::kInvalidData,
         "{}: {} is {}, the model needs {}; is config.json that of these weights? "
         "--ignore_mismatched_sizes starts such weights anew",
         model.checkpoint->file_of(m.name), m.name, m.found, m.wanted);
  }
  TorchGenerator generator(seed);
  if (!model.checkpoint && model.model->task().head().kind == HeadKind::kMaskedLM) {
    draw_from_scratch(*model.model, model.config, generator,
                      [&](int index, std::span<const float> drawn) { parameters.write(index, drawn); });
  } else {
    for (int index : report.missing) {
      draw_new(model.model->parameters()[static_cast<size_t>(index)], *model.model, model.config, generator,
               values);
      parameters.write(index, values);
    }
  }
  if (model.adapter) start_adapter(parameters, model, generator, report, loaded);
  return report;
}

nlohmann::json saved_config(const AutoModel& model) {
  const Task& task = model.model->task();
  return config_to_write(model.config, architecture(model.config, task.head().kind), model.labels,
                         task.problem_type());
}

std::vector<NamedFile> model_files(const AutoModel& model) {
  std::vector<NamedFile> files;
  if (model.tokenizer) files = model.tokenizer->files();
  files.emplace_back("config.json", python_json(saved_config(model), 2) + "\n");
  if (model.cross_encoder)
    for (NamedFile& file : cross_encoder_files(*model.cross_encoder)) files.push_back(std::move(file));
  return files;
}

}  // namespace lathe
