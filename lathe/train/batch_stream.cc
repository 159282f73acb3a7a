#include "lathe/train/batch_stream.h"

#include <algorithm>

#include "lathe/engine/session.h"

namespace lathe {
namespace {

/// Of every sample.
struct Sizes {
  std::vector<int32_t> tokens, rows, scored;  ///< empty: each is a row; all tokens are scored
  explicit Sizes(const TokenizedDataset& data) : tokens(data.lengths()), scored(data.scored()) {
    if (!data.first_rows.empty())
      for (int64_t i = 0; i < data.size(); ++i) rows.push_back(static_cast<int32_t>(data.rows_of(i)));
  }
};

/// The batches that ranks which step together have at the same time, by rank; for other ranks only this
/// rank's.
class Round {
 public:
  explicit Round(const SamplerOptions& o)
      : first_(o.even_batches ? 0 : o.rank), own_(static_cast<size_t>(o.rank - first_)) {
    samples_.resize(o.even_batches ? static_cast<size_t>(o.world_size) : 1);
  }

  void take(Sampler& sampler, const Sizes& sizes, int64_t epoch, int64_t index) {
    most_ = {};
    int rank = first_;
    for (std::vector<int32_t>& samples : samples_) {
      sampler.batch_of(rank++, epoch, index, samples);
      int64_t tokens = 0, rows = 0, scored = 0;
      for (const int32_t sample : samples) {
        tokens += sizes.tokens[static_cast<size_t>(sample)];
        rows += sizes.rows.empty() ? 1 : sizes.rows[static_cast<size_t>(sample)];
        if (!sizes.scored.empty()) scored += sizes.scored[static_cast<size_t>(sample)];
      }
      most_.scored = std::max(most_.scored, scored);
      most_.tokens = std::max(most_.tokens, tokens);
      most_.rows = std::max(most_.rows, rows);
      if (!sizes.rows.empty()) most_.samples = std::max<int64_t>(most_.samples, std::ssize(samples));
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
  Sizes sizes;
  Sampler sampler;
  Round round;
  TokenRounding rounding;
  int64_t epoch, index, epochs;
  const SamplerOptions order;
  const int64_t first, batches;  ///< the first batch, and those of an epoch

  bool fill(PackedBatch& out) {
    if (index == sampler.batches_per_epoch()) {
      index = 0;
      ++epoch;
    }
    if (epoch >= epochs) return false;
    round.take(sampler, sizes, epoch, index);
    const int ordinal = static_cast<int>(sampler.ordinal(epoch, index));
    pack_batch(data, round.own(), {rounding, ordinal, round.most().tokens}, out);
    if (round.samples().size() > 1) pack_all_input_ids(data, round.samples(), out);
    ++index;
    return true;
  }
};

/// Batches whose masks are drawn, in order.
struct BatchStream::Masking {
  struct Masked {
    PackedBatch batch;
    std::vector<std::byte> before;  ///< state of the masks
  };
  BatchMasks& masks;
  TokenRounding rounding;
  SamplerOptions order;
  int64_t index, batches;         ///< place in the epoch of the next batch to mask, and how many that has
  std::vector<std::byte> before;  ///< of the first batch, if its masks were drawn once
  std::deque<Masked> ready = {};
  PackedBatch given = {};

  /// The next batch of the prefetcher.  False: there is none.
  bool mask_next(Prefetcher& prefetcher) {
    const PackedBatch* packed = prefetcher.next();
    if (packed == nullptr) return false;
    if (index == batches) index = 0;
    std::vector<std::byte> now;
    if (!before.empty()) {
      now = masks.state();
      masks.restore(before);
    } else if (index == 0) {
      masks.begin(order.strategy == SamplingStrategy::kGroupByLength ? order.size : 0);
    }
    ready.push_back({*packed, masks.state()});
    masks.mask(ready.back().batch, rounding);
    if (!before.empty()) masks.restore(now);
    before.clear();
    ++index;
    return true;
  }
  /// Masks `count` batches and one more, but not beyond their epoch.
  void mask_ahead(Prefetcher& prefetcher, int64_t count) {
    while (std::ssize(ready) < count && mask_next(prefetcher)) {
    }
    if (std::ssize(ready) == count && index < batches) mask_next(prefetcher);
  }
};

/// Where the consumer stands, of data that say which tokens are scored.
struct BatchStream::Counting {
  Sampler sampler;  ///< another than that of the background thread
  std::vector<int32_t> scored;
  int rank;
  int64_t epoch, index;

  void step() {
    if (++index < sampler.batches_per_epoch()) return;
    index = 0;
    ++epoch;
  }
  int64_t scored_in(int64_t count) {
    int64_t sum = 0;
    std::vector<int32_t> samples;
    for (int64_t i = index; i < std::min(index + count, sampler.batches_per_epoch()); ++i) {
      sampler.batch_of(rank, epoch, i, samples);
      for (const int32_t sample : samples) sum += scored[static_cast<size_t>(sample)];
    }
    return sum;
  }
};

BatchStream::BatchStream(const TokenizedDataset& data, const SamplerOptions& sampler, TokenRounding rounding,
                         int64_t first_epoch, int64_t first_batch, int64_t epochs, size_t ahead) {
  Sizes sizes(data);
  Sampler order(sampler, sizes.tokens);
  const int64_t batches = order.batches_per_epoch();
  if (!sizes.scored.empty()) {
    counting_.reset(
        new Counting{Sampler(sampler, sizes.tokens), sizes.scored, sampler.rank, first_epoch, first_batch});
    if (first_batch == batches) counting_->index = 0, ++counting_->epoch;
  }
  auto position =
      std::make_shared<Position>(Position{data, std::move(sizes), std::move(order), Round(sampler), rounding,
                                          first_epoch, first_batch, epochs, sampler, first_batch, batches});
  position_ = position;
  prefetcher_ =
      std::make_unique<Prefetcher>([position](PackedBatch& out) { return position->fill(out); }, ahead + 1);
}

BatchStream::~BatchStream() = default;

const PackedBatch* BatchStream::next() {
  if (!masking_) {
    if (counting_) counting_->step();
    return prefetcher_->next();
  }
  masking_->mask_ahead(*prefetcher_, 1);
  if (masking_->ready.empty()) return nullptr;
  std::swap(masking_->given, masking_->ready.front().batch);
  masking_->ready.pop_front();
  return &masking_->given;
}

void BatchStream::mask_with(BatchMasks& masks, std::span<const std::byte> before) {
  masking_.reset(new Masking{.masks = masks,
                             .rounding = position_->rounding,
                             .order = position_->order,
                             .index = position_->first,
                             .batches = position_->batches,
                             .before = {before.begin(), before.end()}});
  if (position_->first == 0) masking_->before.clear();  // the epoch begins
}

std::vector<std::byte> BatchStream::masks_before() const {
  return masking_ && !masking_->ready.empty() ? masking_->ready.front().before : std::vector<std::byte>();
}

int64_t BatchStream::scored_in_next(int64_t count) {
  if (!masking_) return counting_ ? counting_->scored_in(count) : 0;
  masking_->mask_ahead(*prefetcher_, count);
  int64_t scored = 0;
  for (int64_t i = 0; i < std::min<int64_t>(count, std::ssize(masking_->ready)); ++i)
    scored += masking_->ready[static_cast<size_t>(i)].batch.real_scored;
  return scored;
}

Bucket largest_batch(const TokenizedDataset& data, const SamplerOptions& options, TokenRounding rounding,
                     int64_t epochs, const BatchMasks* masks) {
  constexpr int64_t kMostSamples = 10'000'000;  // a second or two
  constexpr int64_t kEpoch = 1000;              // the order of an epoch takes as long as this number of
                                                // samples
  const Sizes sizes(data);
  Sampler sampler(options, sizes.tokens);
  Round round(options);
  Bucket largest;
  if (options.strategy == SamplingStrategy::kSequential) epochs = 1;  // they are all alike
  epochs = std::min(epochs, std::max<int64_t>(1, kMostSamples / (options.size + kEpoch)));
  for (int64_t epoch = 0; epoch < epochs; ++epoch)
    for (int64_t index = 0; index < sampler.batches_per_epoch(); ++index) {
      round.take(sampler, sizes, epoch, index);
      largest.scored = std::max(largest.scored, round.most().scored);
      largest.tokens = std::max(largest.tokens, round.most().tokens);
      largest.rows = std::max(largest.rows, round.most().rows);
      largest.samples = std::max(largest.samples, round.most().samples);
    }
  largest.tokens = rounding(largest.tokens);
  if (masks != nullptr)
    largest.scored = rounding(masks->usual_scored(largest.tokens));
  else if (!sizes.scored.empty())
    largest.scored = rounding(std::max<int64_t>(1, largest.scored));
  return largest;
}

}  // namespace lathe
