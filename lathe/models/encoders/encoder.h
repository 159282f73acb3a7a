#pragma once
#include <memory>
#include <string>
#include <vector>

#include "lathe/models/model_config.h"
#include "lathe/models/task_model.h"

namespace lathe {

/// An encoder of the configuration's family with the head that a task needs, its parameters named and ordered
/// as in Hugging Face:
///   kSequenceClassification  outputs over the first token
///   kTokenClassification     outputs over each token
///   kQuestionAnswering       two outputs over each token
///   kMultipleChoice          one output over the first token
///   kMaskedLM                its decoder tied to the word embeddings
///   kSentenceVector          ModelConfig::sentence after the base
/// Errors: kUnsupported for a head that Lathe lacks for this family, and for a decoder that is not tied.
/// Source: Devlin et al. 2018; the families' own in their files.
std::unique_ptr<TaskModel> make_model(const ModelConfig& config, const TaskPtr& task);

/// Hugging Face's class with a head, e.g. "BertForSequenceClassification"; "BertModel" for vectors of texts.
std::string architecture(const ModelConfig& config, HeadKind head);

}  // namespace lathe
