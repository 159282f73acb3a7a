#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "lathe/io/hub/hub.h"
#include "lathe/io/json_file.h"
#include "lathe/train/auto_model.h"
#include "python/exceptions.h"

namespace lathe {

/// The folder of a model, from the Hub where it is no folder here.  Errors: as fetch_model.
inline std::string fetched(const std::string& name, const std::string& revision, const std::string& cache_dir,
                           const ModelNeed& need) {
  HubSettings hub = hub_settings();
  hub.should_stop = stop_is_wanted;
  return fetch_model(real_file_system(), name, revision, cache_dir, need, hub);
}

/// A model as its folder holds it, with the head that it is trained with.
struct Model {
  Model() = default;
  /// A classifier: what `labels` mean, and how many of them there are.
  Model(const std::string& name, const std::string& problem, const std::vector<std::string>& labels,
        bool ignore_mismatched_sizes, const std::string& revision, const std::string& cache_dir) {
    const std::string folder = fetched(name, revision, cache_dir, {true, true});
    HeadOptions head{single_label, labels, ignore_mismatched_sizes};
    const ModelConfig config = read_model_config(real_file_system(), folder);
    const bool config_says = !value_or<std::string>(*config.json, "problem_type", "", config.file).empty();
    if (problem.empty() && (labels.empty() || config_says)) head.task = classification_task(config);
    if (problem.empty() && !config_says && labels.size() == 1) head.task = regression;
    if (problem == "regression") head.task = regression;
    if (problem == "multi_label_classification") head.task = multi_label;
    if (problem == "regression" && labels.empty()) head.labels = {"LABEL_0"};
    if (head.task == regression && labels.size() > 1)
      fail(ErrorCode::kUnsupported, "regression: found {} labels, expected one value per text",
           labels.size());
    model = from_pretrained(real_file_system(), folder, head);
  }
  std::string problem() const { return model.model->task().problem_type(); }

  AutoModel model;
};

inline AutoModel twin_with(const AutoModel& model, const Tokenizer* tokenizer) {
  AutoModel twin = twin_of(model);
  if (tokenizer != nullptr) twin.tokenizer = *tokenizer;
  return twin;
}

}  // namespace lathe
