#pragma once
#include <memory>
#include <string>
#include <vector>

#include "lathe/models/bert_config.h"
#include "lathe/models/task_model.h"

namespace lathe {

/// BERT with a head, its parameters named and ordered as in Hugging Face:
///   kSingleLabel, kMultiLabel, kRegression  BertForSequenceClassification, `num_labels` outputs over the
///   pooled [CLS] kQuestionAnswering                      BertForQuestionAnswering kMaskedLm BertForMaskedLM,
///   its decoder tied to the word embeddings
/// Source: Devlin et al. 2018; transformers' modeling_bert for names and the places of dropout.
std::unique_ptr<TaskModel> make_bert(const BertConfig& config, Problem problem, int64_t num_labels = 2);

/// Hugging Face's class for a problem, e.g. "BertForSequenceClassification".
std::string bert_architecture(Problem problem);

}  // namespace lathe
