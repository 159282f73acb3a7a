#include "lathe/train/batch_stream.h"

#include <algorithm>

#include "lathe/train/session.h"

namespace lathe {

/// Owned by the filling function, which runs on the background thread alone.
struct BatchStream::Position {
  const TokenizedDataset& data;
  Sampler sampler;
  TokenRounding rounding;
  int64_t epoch, index, epochs;
  std::vector<int32_t> samples;

  bool fill(PackedBatch& out) {
    if (index == sampler.batches_per_epoch()) {
      index = 0;
      ++epoch;
    }
    if (epoch >= epochs) return false;
    sampler.batch(epoch, index, samples);
    pack_batch(data, samples, {rounding, static_cast<int>(sampler.ordinal(epoch, index))}, out);
    ++index;
    return true;
  }
};

BatchStream::BatchStream(const TokenizedDataset& data, const SamplerOptions& sampler, TokenRounding rounding,
                         int64_t first_epoch, int64_t first_batch, int64_t epochs, size_t ahead) {
  const std::vector<int32_t> lengths = data.lengths();
  auto position = std::make_shared<Position>(
      Position{data, Sampler(sampler, lengths), rounding, first_epoch, first_batch, epochs, {}});
  prefetcher_ =
      std::make_unique<Prefetcher>([position](PackedBatch& out) { return position->fill(out); }, ahead + 1);
}

Bucket largest_batch(const TokenizedDataset& data, const SamplerOptions& options, TokenRounding rounding,
                     int64_t epochs) {
  const std::vector<int32_t> lengths = data.lengths();
  Sampler sampler(options, lengths);
  Bucket largest;
  std::vector<int32_t> samples;
  if (options.strategy == SamplingStrategy::kSequential) epochs = 1;  // they are all alike
  for (int64_t epoch = 0; epoch < epochs; ++epoch)
    for (int64_t index = 0; index < sampler.batches_per_epoch(); ++index) {
      sampler.batch(epoch, index, samples);
      int64_t tokens = 0;
      for (const int32_t sample : samples) tokens += lengths[static_cast<size_t>(sample)];
      largest.tokens = std::max(largest.tokens, tokens);
      largest.rows = std::max(largest.rows, static_cast<int64_t>(samples.size()));
    }
  largest.tokens = rounding(largest.tokens);
  return largest;
}

}  // namespace lathe
