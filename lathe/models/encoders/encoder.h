#pragma once
#include <memory>
#include <string>
#include <vector>

#include "lathe/models/model_config.h"
#include "lathe/models/task_model.h"

namespace lathe {

/// An encoder of the configuration's family with a head, its parameters named and ordered as in Hugging Face:
///   kSingleLabel, kMultiLabel, kRegression  …ForSequenceClassification, `num_labels` outputs over the first
///                                           token
///   kQuestionAnswering                      …ForQuestionAnswering
///   kMaskedLm                               …ForMaskedLM, its decoder tied to the word embeddings
/// Errors: kUnsupported for a head that Lathe lacks for this family, and for a decoder that is not tied.
/// Source: Devlin et al. 2018; the families' own in their files.
std::unique_ptr<TaskModel> make_model(const ModelConfig& config, Problem problem, int64_t num_labels = 2);

/// Hugging Face's class for a problem, e.g. "BertForSequenceClassification".
std::string architecture(const ModelConfig& config, Problem problem);

}  // namespace lathe
