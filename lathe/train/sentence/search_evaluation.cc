#include "lathe/train/sentence/search_evaluation.h"

#include "lathe/core/thread_pool.h"
#include "lathe/data/retrieval/pair_metrics.h"
#include "lathe/data/retrieval/ranking_metrics.h"
#include "lathe/train/sentence/saved_sentence.h"
#include "lathe/train/sentence/text_encoder.h"

namespace lathe {
namespace {

/// The first of these prompts that the folder has; empty: none of them.
std::string prompt_named(const SentenceFolder& modules, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto found = modules.prompts.find(name); found != modules.prompts.end()) return found->second;
  return "";
}

}  // namespace

/// Source: SentenceTransformer.encode_query and encode_document.
MetricValues search_metrics(Trainer& trainer, const RetrievalSet& set, Similarity similarity, int length,
                            int64_t threads) {
  const AutoModel& model = trainer.auto_model();
  const SentenceFolder modules = modules_of(model);
  ThreadPool pool(static_cast<int>(threads));
  TextEncoder encoder(trainer.session(), model, pool, {.max_seq_length = length});
  const auto vectors = [&](const std::vector<std::string>& texts, const std::string& prompt) {
    return encoder.encode(encoder.tokenize(texts, prompt), {});
  };
  const std::vector<float> queries = vectors(set.queries, prompt_named(modules, {"query"}));
  const std::vector<float> documents =
      vectors(set.documents, prompt_named(modules, {"document", "passage", "corpus"}));
  const int64_t width = encoder.width({});
  const auto found = rank_documents(similarity, {queries, width}, {documents, width},
                                    ranks_of_ids(set.document_ids), RetrievalCutoffs{}.most());
  return with_name(retrieval_metrics(found, set.relevant), name_of(similarity));
}

}  // namespace lathe
