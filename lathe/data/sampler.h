#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "lathe/data/balanced_groups.h"

namespace lathe {

enum class SamplingStrategy { kRandom, kSequential, kGroupByLength, kBatchRebalance, kNoDuplicates };

struct SamplerOptions {
  int64_t size = 0;      ///< samples of the data set
  int batch_size = 8;    ///< per rank and micro-step
  int accumulation = 1;  ///< micro-steps of an update; kBatchRebalance divides its samples among them
  SamplingStrategy strategy = SamplingStrategy::kRandom;
  uint64_t seed = 42;  ///< `data_seed`, else `seed`; epoch e draws from seed + e
  /// kNoDuplicates: of each sample the numbers of its texts; lives as long as the sampler.
  std::span<const std::vector<int32_t>> texts = {};
  int length_group = 0;  ///< kGroupByLength: samples of one update (batch_size · accumulation); 0: batch_size
  bool drop_last = false;
  int rank = 0;
  int world_size = 1;
  bool even_batches = true;  ///< several ranks: the last round is filled up from the epoch's beginning
};

/// The samples of each batch, for one rank: a pure function of the options and the epoch, so that a
/// resumed run needs no saved state.  Global batch g = index · world_size + rank takes samples
/// [g · batch_size, (g+1) · batch_size) of the epoch's order.  Not safe for several threads at the same time.
/// With kBatchRebalance the samples of an update are random, but divided by length into micro-batches of any
/// size that cost about the same (balanced_groups).
/// With kNoDuplicates no batch has a text twice (no_duplicates_batches); where there are too few different
/// texts for all batches of an epoch, the first ones come again.
/// Source: accelerate's SeedableRandomSampler and BatchSamplerShard, transformers'
/// get_length_grouped_indices and BatchRebalanceSampler.
class Sampler {
 public:
  /// lengths: [size], needed for kGroupByLength and kBatchRebalance only; copied.
  /// Errors: kUsage for sizes below 1, a rank outside the world or missing lengths.
  explicit Sampler(SamplerOptions options, std::span<const int32_t> lengths = {});

  const SamplerOptions& options() const { return options_; }
  /// Batches of this rank in an epoch.
  int64_t batches_per_epoch() const { return batches_; }
  /// The order of all samples in an epoch, before it is cut into batches.  Valid until another epoch is asked
  /// for.  Errors, also of what follows: kUsage for an epoch below 0.
  std::span<const int32_t> order(int64_t epoch);
  /// Fills `out` with batch `index` of this rank; the last one may be short.  Reuses out's memory.
  /// Errors: kUsage if index is not below batches_per_epoch().
  void batch(int64_t epoch, int64_t index, std::vector<int32_t>& out) {
    batch_of(options_.rank, epoch, index, out);
  }
  /// The same for another rank, which has as many batches (even_batches).  Errors: kUsage, too, for a rank
  /// outside the world.
  void batch_of(int rank, int64_t epoch, int64_t index, std::vector<int32_t>& out);
  /// How many samples of the same update come before the first of that batch, over all ranks and
  /// micro-steps.  It distinguishes the samples of an update.
  int64_t ordinal(int64_t epoch, int64_t index);

 private:
  /// kBatchRebalance: the samples of an update, longest first, and which of them are whose.
  struct Update {
    int64_t epoch = -1, index = -1;
    std::vector<int32_t> samples;
    std::vector<SampleGroup> groups;  ///< by micro-step and, within one, by rank
  };
  const Update& update(int64_t epoch, int64_t index);
  /// kNoDuplicates.
  void unlike_batch(int64_t number, int64_t epoch, std::vector<int32_t>& out);

  SamplerOptions options_;
  std::vector<int32_t> lengths_;
  int64_t batches_ = 0;
  int64_t epoch_ = -1;
  std::vector<int32_t> order_;
  int64_t unlike_epoch_ = -1;
  std::vector<std::vector<int32_t>> unlike_;  // batches of that epoch, of all ranks
  Update update_;
};

/// The samples 0 … lengths.size()−1, random, but near neighbours of like length and the longest one first.
/// Errors: kUsage for a group below 1.
std::vector<int32_t> length_grouped_order(std::span<const int32_t> lengths, int group, uint64_t seed);

}  // namespace lathe
