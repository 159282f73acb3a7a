#pragma once
#include <memory>

#include "lathe/models/model_config.h"
#include "lathe/models/task_model.h"

namespace lathe {

/// A decoder of the configuration's family with the head that a task needs:
///   kCausalLM                its word table or a table of its own
///   kSequenceClassification  outputs over the last token
///   kSentenceVector          ModelConfig::sentence after the base
/// Errors: kUnsupported for another head.
/// Source: Vaswani et al. 2017; the families' own in families.cc.
std::unique_ptr<TaskModel> make_decoder(const ModelConfig& config, const TaskPtr& task);

}  // namespace lathe
