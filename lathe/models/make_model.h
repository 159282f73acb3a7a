#pragma once
#include <memory>
#include <string>

#include "lathe/models/model_config.h"
#include "lathe/models/task_model.h"

namespace lathe {

/// A model of the configuration's family with the head that a task needs, its parameters named and ordered as
/// in Hugging Face.  Errors: those of make_encoder and make_decoder.
std::unique_ptr<TaskModel> make_model(const ModelConfig& config, const TaskPtr& task);

/// Hugging Face's class with a head, e.g. "BertForSequenceClassification"; "BertModel" for vectors of texts.
std::string architecture(const ModelConfig& config, HeadKind head);

}  // namespace lathe
