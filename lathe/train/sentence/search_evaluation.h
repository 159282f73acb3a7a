#pragma once
#include "lathe/data/metrics.h"
#include "lathe/data/retrieval/similarity.h"
#include "lathe/data/retrieval/text_columns.h"
#include "lathe/train/trainer.h"

namespace lathe {

/// How well queries find their documents with a trainer's model as it is now, as
/// InformationRetrievalEvaluator of sentence-transformers: <similarity>_accuracy@1 and so on.  The folder's
/// prompts named query and document or passage come before the texts.  length: of a text, in tokens.
/// Errors: those of Session.
MetricValues search_metrics(Trainer& trainer, const RetrievalSet& set, Similarity similarity, int length,
                            int64_t threads);

}  // namespace lathe
