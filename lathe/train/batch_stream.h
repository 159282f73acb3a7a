#pragma once
#include <memory>

#include "lathe/core/token_rounding.h"
#include "lathe/data/prefetcher.h"
#include "lathe/data/sampler.h"
#include "lathe/engine/programs.h"

namespace lathe {

/// The micro-batches of a run from a given update on, packed ahead on a background thread.  Ranks that step
/// together (SamplerOptions::even_batches) have batches of one size: that of the rank with the most tokens,
/// which the others would wait for in any case.
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

/// The most tokens, packed, and the most rows that a micro-batch of the first `epochs` epochs has, on any
/// rank of those that step together.  Of a run of about ten million samples and more, or ten thousand
/// epochs, the first epochs alone are looked through, one at least: a run that is to go on until it is
/// stopped must begin.  A larger batch that comes later gets its memory then.
Bucket largest_batch(const TokenizedDataset& data, const SamplerOptions& sampler, TokenRounding rounding,
                     int64_t epochs);

}  // namespace lathe
