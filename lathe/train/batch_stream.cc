#include "lathe/train/batch_stream.h"

#include <algorithm>

#include "lathe/train/session.h"

namespace lathe {
namespace {

/// The batches of the ranks that step together at once, or of one rank alone.
class Samplers {
 public:
  Samplers(const SamplerOptions& options, std::span<const int32_t> lengths)
      : lengths_(lengths.begin(), lengths.end()) {
    const int first = options.even_batches ? 0 : options.rank;
    const int end = options.even_batches ? options.world_size : options.rank + 1;
    SamplerOptions of_rank = options;
    for (of_rank.rank = first; of_rank.rank < end; ++of_rank.rank) ranks_.emplace_back(of_rank, lengths);
    own_ = static_cast<size_t>(options.rank - first);
    samples_.resize(ranks_.size());
  }

  Sampler& own() { return ranks_[own_]; }
  /// Fills samples() and tokens().
  void take(int64_t epoch, int64_t index) {
    tokens_ = rows_ = 0;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].batch(epoch, index, samples_[r]);
      int64_t tokens = 0;
      for (const int32_t sample : samples_[r]) tokens += lengths_[static_cast<size_t>(sample)];
      tokens_ = std::max(tokens_, tokens);
      rows_ = std::max(rows_, static_cast<int64_t>(samples_[r].size()));
    }
  }
  const std::vector<int32_t>& own_samples() const { return samples_[own_]; }
  std::span<const std::vector<int32_t>> samples() const { return samples_; }  ///< by rank
  Bucket most() const { return {tokens_, rows_}; }  ///< tokens before they are rounded

 private:
  std::vector<int32_t> lengths_;
  std::vector<Sampler> ranks_;
  size_t own_ = 0;
  std::vector<std::vector<int32_t>> samples_;
  int64_t tokens_ = 0, rows_ = 0;
};

}  // namespace

/// Owned by the filling function, which runs on the background thread alone.
struct BatchStream::Position {
  const TokenizedDataset& data;
  Samplers samplers;
  TokenRounding rounding;
  int64_t epoch, index, epochs;

  bool fill(PackedBatch& out) {
    if (index == samplers.own().batches_per_epoch()) {
      index = 0;
      ++epoch;
    }
    if (epoch >= epochs) return false;
    samplers.take(epoch, index);
    const int ordinal = static_cast<int>(samplers.own().ordinal(epoch, index));
    pack_batch(data, samplers.own_samples(), {rounding, ordinal, samplers.most().tokens}, out);
    if (samplers.samples().size() > 1) pack_all_input_ids(data, samplers.samples(), out);
    ++index;
    return true;
  }
};

BatchStream::BatchStream(const TokenizedDataset& data, const SamplerOptions& sampler, TokenRounding rounding,
                         int64_t first_epoch, int64_t first_batch, int64_t epochs, size_t ahead) {
  const std::vector<int32_t> lengths = data.lengths();
  auto position = std::make_shared<Position>(
      Position{data, Samplers(sampler, lengths), rounding, first_epoch, first_batch, epochs});
  prefetcher_ =
      std::make_unique<Prefetcher>([position](PackedBatch& out) { return position->fill(out); }, ahead + 1);
}

Bucket largest_batch(const TokenizedDataset& data, const SamplerOptions& options, TokenRounding rounding,
                     int64_t epochs) {
  const std::vector<int32_t> lengths = data.lengths();
  Samplers samplers(options, lengths);
  Bucket largest;
  if (options.strategy == SamplingStrategy::kSequential) epochs = 1;  // they are all alike
  for (int64_t epoch = 0; epoch < epochs; ++epoch)
    for (int64_t index = 0; index < samplers.own().batches_per_epoch(); ++index) {
      samplers.take(epoch, index);
      largest.tokens = std::max(largest.tokens, samplers.most().tokens);
      largest.rows = std::max(largest.rows, samplers.most().rows);
    }
  largest.tokens = rounding(largest.tokens);
  return largest;
}

}  // namespace lathe
