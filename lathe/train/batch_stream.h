#pragma once
#include <memory>

#include "lathe/core/token_rounding.h"
#include "lathe/data/prefetcher.h"
#include "lathe/data/sampler.h"
#include "lathe/engine/programs.h"

namespace lathe {

/// The micro-batches of a run from a given update on, packed ahead on a background thread.  Ranks that step
/// together (SamplerOptions::even_batches) get batches of one size: that of the rank with the most tokens.
/// The other ranks would wait for that one anyway.
class BatchStream {
 public:
  /// ahead: batches that are packed before they are asked for, at least 1.
  BatchStream(const TokenizedDataset& data, const SamplerOptions& sampler, TokenRounding rounding,
              int64_t first_epoch, int64_t first_batch, int64_t epochs, size_t ahead = 2);
  /// Null at the end of the last epoch.
  const PackedBatch* next() { return prefetcher_->next(); }

 private:
  struct Position;
  std::unique_ptr<Prefetcher> prefetcher_;
};

/// The most packed tokens and the most rows in a micro-batch of the first `epochs` epochs, on any of the
/// ranks that step together.  In a run of about ten million samples or more, or of ten thousand epochs, only
/// the first epochs are searched, at least one: a run without an end must begin, too.  A larger batch that
/// comes later gets its memory when it comes.
Bucket largest_batch(const TokenizedDataset& data, const SamplerOptions& sampler, TokenRounding rounding,
                     int64_t epochs);

}  // namespace lathe
