#pragma once
#include <vector>

#include "lathe/data/batch.h"
#include "lathe/engine/session.h"

namespace lathe {

/// The output of a frozen base for the samples of one data set.  The base runs once per sample, when a batch
/// first needs it.  A row's bits do not depend on the rows that it is packed with, so the head sees the same
/// as if the base ran again.  Valid for training only if the base has no dropout.
class BaseCache {
 public:
  /// Allocates for all samples.  `session` and `data` must outlive it; `data` must not change.
  BaseCache(Session& session, const TokenizedDataset& data);
  /// Bytes that such a cache takes.
  static uint64_t bytes(const Session& session, const TokenizedDataset& data);

  /// Rows for a batch of the data set, valid until the next call; zero for tokens after its last row.  Starts
  /// anew when a frozen parameter has changed.
  BaseRows rows(const PackedBatch& batch);

 private:
  std::span<std::byte> place(int32_t sample);
  void compute(std::span<const int32_t> samples);

  Session& session_;
  const TokenizedDataset& data_;
  bool per_token_;
  uint64_t version_;
  std::vector<bool> known_;       // by sample
  std::vector<std::byte> store_;  // rows of all samples, in their order
  std::vector<int32_t> missing_;
  PackedBatch packed_;                          // of the samples that were missing
  std::vector<std::byte> computed_, gathered_;  // rows of packed_, of the batch at hand
};

}  // namespace lathe
