#pragma once
#include <memory>

#include "lathe/models/model_config.h"
#include "lathe/models/task_model.h"

namespace lathe {

/// ModernBERT with a head: rotary positions, gated feed-forward networks, normalisation before each sublayer,
/// and attention within a window in most layers.  Arguments and errors as make_model's.
/// Source: Warner et al. 2024 (arXiv 2412.13663); transformers' modeling_modernbert.
std::unique_ptr<TaskModel> make_modern_bert(const ModelConfig& config, const TaskPtr& task);

}  // namespace lathe
