#include "lathe/train/batch_stream.h"

#include <algorithm>

#include "lathe/engine/session.h"

namespace lathe {
namespace {

/// The batches that ranks which step together have at the same time, by rank; for other ranks only this
/// rank's.
class Round {
 public:
  explicit Round(const SamplerOptions& o)
      : first_(o.even_batches ? 0 : o.rank), own_(static_cast<size_t>(o.rank - first_)) {
    samples_.resize(o.even_batches ? static_cast<size_t>(o.world_size) : 1);
  }

  void take(Sampler& sampler, std::span<const int32_t> lengths, int64_t epoch, int64_t index) {
    most_ = {};
    int rank = first_;
    for (std::vector<int32_t>& samples : samples_) {
      sampler.batch_of(rank++, epoch, index, samples);
      int64_t tokens = 0;
      for (const int32_t sample : samples) tokens += lengths[static_cast<size_t>(sample)];
      most_.tokens = std::max(most_.tokens, tokens);
      most_.rows = std::max(most_.rows, static_cast<int64_t>(samples.size()));
    }
  }
  std::span<const std::vector<int32_t>> samples() const { return samples_; }
  const std::vector<int32_t>& own() const { return samples_[own_]; }
  Bucket most() const { return most_; }  ///< tokens before they are rounded

 private:
  int first_;
  size_t own_;
  std::vector<std::vector<int32_t>> samples_;
  Bucket most_;
};

}  // namespace

/// Owned by the filling function, which runs only on the background thread.
struct BatchStream::Position {
  const TokenizedDataset& data;
  std::vector<int32_t> lengths;
  Sampler sampler;
  Round round;
  TokenRounding rounding;
  int64_t epoch, index, epochs;

  bool fill(PackedBatch& out) {
    if (index == sampler.batches_per_epoch()) {
      index = 0;
      ++epoch;
    }
    if (epoch >= epochs) return false;
    round.take(sampler, lengths, epoch, index);
    const int ordinal = static_cast<int>(sampler.ordinal(epoch, index));
    pack_batch(data, round.own(), {rounding, ordinal, round.most().tokens}, out);
    if (round.samples().size() > 1) pack_all_input_ids(data, round.samples(), out);
    ++index;
    return true;
  }
};

BatchStream::BatchStream(const TokenizedDataset& data, const SamplerOptions& sampler, TokenRounding rounding,
                         int64_t first_epoch, int64_t first_batch, int64_t epochs, size_t ahead) {
  const std::vector<int32_t> lengths = data.lengths();
  auto position = std::make_shared<Position>(Position{
      data, lengths, Sampler(sampler, lengths), Round(sampler), rounding, first_epoch, first_batch, epochs});
  prefetcher_ =
      std::make_unique<Prefetcher>([position](PackedBatch& out) { return position->fill(out); }, ahead + 1);
}

Bucket largest_batch(const TokenizedDataset& data, const SamplerOptions& options, TokenRounding rounding,
                     int64_t epochs) {
  constexpr int64_t kMostSamples = 10'000'000;  // a second or two
  constexpr int64_t kEpoch = 1000;              // the order of an epoch takes as long as this number of
                                                // samples
  const std::vector<int32_t> lengths = data.lengths();
  Sampler sampler(options, lengths);
  Round round(options);
  Bucket largest;
  if (options.strategy == SamplingStrategy::kSequential) epochs = 1;  // they are all alike
  epochs = std::min(epochs, std::max<int64_t>(1, kMostSamples / (options.size + kEpoch)));
  for (int64_t epoch = 0; epoch < epochs; ++epoch)
    for (int64_t index = 0; index < sampler.batches_per_epoch(); ++index) {
      round.take(sampler, lengths, epoch, index);
      largest.tokens = std::max(largest.tokens, round.most().tokens);
      largest.rows = std::max(largest.rows, round.most().rows);
    }
  largest.tokens = rounding(largest.tokens);
  return largest;
}

}  // namespace lathe
