#pragma once
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "lathe/core/token_rounding.h"
#include "lathe/data/lm/batch_masks.h"
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
  ~BatchStream();
  /// Null at the end of the last epoch.
  const PackedBatch* next();

  /// From now on batches are masked when they are asked for, one after the other, and as transformers'
  /// Trainer does it the next one of the same epoch, too.  `masks` must outlive this. before: masks_before of
  /// a stream that was to give the next batch, empty where there was none.
  void mask_with(BatchMasks& masks, std::span<const std::byte> before = {});
  /// The state of the masks before they were drawn for the batch that `next` will give; empty: they are not
  /// drawn yet.
  std::vector<std::byte> masks_before() const;
  /// The tokens that the next `count` batches score.
  int64_t scored_in_next(int64_t count);

 private:
  struct Position;
  struct Masking;
  struct Counting;
  std::unique_ptr<Masking> masking_;    ///< null: nothing is masked
  std::unique_ptr<Counting> counting_;  ///< null: the data do not say what is scored
  std::shared_ptr<Position> position_;
  std::unique_ptr<Prefetcher> prefetcher_;
};

/// The most packed tokens and the most rows in a micro-batch of the first `epochs` epochs, on any of the
/// ranks that step together.  In a run of about ten million samples or more, or of ten thousand epochs, only
/// the first epochs are searched, at least one: a run without an end must begin, too.  A larger batch that
/// comes later gets its memory when it comes. masks: of the batches, null where they are not masked.
Bucket largest_batch(const TokenizedDataset& data, const SamplerOptions& sampler, TokenRounding rounding,
                     int64_t epochs, const BatchMasks* masks = nullptr);

}  // namespace lathe
