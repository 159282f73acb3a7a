#pragma once
#include <memory>

#include "lathe/models/model_config.h"
#include "lathe/models/task_model.h"

namespace lathe {

/// An encoder of the configuration's family with the head that a task needs:
///   kSequenceClassification  outputs over the first token
///   kTokenClassification     outputs over each token
///   kQuestionAnswering       two outputs over each token
///   kMultipleChoice          one output over the first token
///   kMaskedLM                its decoder tied to the word embeddings
///   kSentenceVector          ModelConfig::sentence after the base
/// Errors: kUnsupported for a head that Lathe lacks for this family, and for a decoder that is not tied.
/// Source: Devlin et al. 2018; the families' own in their files.
std::unique_ptr<TaskModel> make_encoder(const ModelConfig& config, const TaskPtr& task);

}  // namespace lathe
