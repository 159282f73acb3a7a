#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/thread_pool.h"
#include "lathe/data/retrieval/text_columns.h"
#include "lathe/data/tokenized.h"
#include "lathe/settings/training_arguments.h"
#include "lathe/tasks/text_similarity.h"
#include "lathe/train/auto_model.h"

namespace lathe {

/// Texts of one split, and what a model of vectors learns or is evaluated from.
struct EmbedPart {
  TextColumns columns;
  TokenizedDataset samples;
};

/// Whether the loss is one for such data: of pairs that are not all alike it needs to read which are.
bool has_loss(const SimilarityLoss& loss, const TextColumns& columns);

/// The order in which rows are evaluated: losses of texts among others depend on which are in one batch.
/// Source: BaseTrainer.get_batch_sampler of sentence-transformers, which draws an order there, too.
std::vector<int32_t> order_of_evaluation(const TextColumns& columns, const EmbedArguments& embed,
                                         const TrainingArguments& training);

/// The most tokens of a text: what the model takes, and at most what its folder says.
int64_t length_of_texts(const AutoModel& model);

/// Errors: kUsage for a --matryoshka_dims above the numbers of the model's vectors.  name: the model's.
void check_widths(const SimilarityLoss& loss, const AutoModel& model, const std::string& name);

/// Makes `samples` of `columns`, with the targets that the loss reads where it is one for them.
/// learns: no batch of it has a text twice, where --batch_sampler says so.
void make_samples(EmbedPart& part, const EmbedArguments& embed, const SimilarityLoss& loss,
                  const AutoModel& model, bool learns, ThreadPool& pool);

}  // namespace lathe
