#include "lathe/train/sentence/saved_sentence.h"

#include "lathe/core/error.h"
#include "lathe/models/sentence/sentence_checkpoint.h"

namespace lathe {
namespace {

SentenceFolder plain_modules(int64_t width) {
  SentenceFolder modules;
  modules.pooling.width = width;
  return modules;
}

}  // namespace

bool gives_vectors(const AutoModel& model) {
  return model.model->task().head().kind == HeadKind::kSentenceVector;
}

SentenceFolder modules_of(const AutoModel& model) {
  return model.config.sentence ? *model.config.sentence : plain_modules(model.config.hidden_size);
}

std::string name_in_transformer(const TaskModel& model, const std::string& parameter) {
  const std::string prefix = model.base_prefix();
  return parameter.starts_with(prefix) ? parameter.substr(prefix.size()) : "";
}

std::vector<std::pair<std::string, const TensorView*>> unused_tensors(const AutoModel& model) {
  std::vector<std::pair<std::string, const TensorView*>> found;
  if (!model.checkpoint) return found;
  const std::string prefix = model.model->base_prefix();
  for (const std::string& name : model.checkpoint->names()) {
    const std::string own = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    if (own.starts_with(kUnusedByVectors)) found.emplace_back(own, model.checkpoint->find(name));
  }
  return found;
}

Status write_modules(FileSystem& fs, const std::string& folder, const AutoModel& model,
                     const Parameters& parameters) {
  SentenceFolder modules = modules_of(model);
  const auto values = [&](size_t step, const char* of) {
    return parameters.read(model.model->find(dense_layer(step) + of));
  };
  for (size_t step = 0; step < modules.steps.size(); ++step) {
    std::optional<DenseConfig>& dense = modules.steps[step].dense;
    if (!dense) continue;
    dense->weight = values(step, ".weight");
    if (!dense->bias.empty()) dense->bias = values(step, ".bias");
  }
  try {
    write_sentence_folder(fs, folder, modules);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

std::unique_ptr<Checkpoint> open_saved(FileSystem& fs, const std::string& folder, const AutoModel& model) {
  std::unique_ptr<Checkpoint> weights = open_checkpoint(fs, folder);
  if (!gives_vectors(model) || !is_sentence_folder(fs, folder)) return weights;
  return with_dense_weights(std::move(weights),
                            std::make_shared<SentenceFolder>(read_sentence_folder(fs, folder)), folder);
}

}  // namespace lathe
