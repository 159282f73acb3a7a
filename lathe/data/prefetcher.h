#pragma once
#include <functional>
#include <memory>

#include "lathe/data/batch.h"

namespace lathe {

/// Makes batches ahead of the consumer on one background thread, in order, in a ring of slots whose memory
/// is reused.  One consumer thread.
class Prefetcher {
 public:
  /// Fills the slot with the next batch, or returns false when there is none; called only on the background
  /// thread, one call after the other.  May throw: `next` throws it on, after the batches before it.
  using Fill = std::function<bool(PackedBatch&)>;

  /// slots: at least 2; the consumer holds one.
  explicit Prefetcher(Fill fill, size_t slots = 3);
  /// Waits for the call of fill at hand and drops what was not fetched.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next batch, valid until the next call; null at the end, and again at every later call.
  const PackedBatch* next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lathe
