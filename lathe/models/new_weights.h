#pragma once
#include <functional>
#include <span>
#include <vector>

#include "lathe/data/torch_random.h"
#include "lathe/models/model_config.h"
#include "lathe/models/task_model.h"

namespace lathe {

/// New values of one parameter: N(0, initializer_range), or as the parameter says; biases 0, norms 1.
void draw_new(const nn::Parameter& parameter, const TaskModel& model, const ModelConfig& config,
              TorchGenerator& generator, std::vector<float>& values);

/// All parameters of a masked language model that begins from scratch, but those of adapters, with every draw
/// that transformers makes for it: the layers' own constructors draw first, and what they draw is lost.
/// Source: `set_seed(seed); AutoModelForMaskedLM.from_config(config)` of transformers 5.23.
void draw_from_scratch(const TaskModel& model, const ModelConfig& config, TorchGenerator& generator,
                       const std::function<void(int index, std::span<const float> values)>& write);

}  // namespace lathe
