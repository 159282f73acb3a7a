#include "lathe/data/sampler.h"

#include <algorithm>
#include <numeric>

#include "lathe/core/error.h"
#include "lathe/data/torch_random.h"

namespace lathe {
namespace {

int64_t count_batches(const SamplerOptions& o) {
  const int64_t whole = o.size / o.batch_size, all = (o.size + o.batch_size - 1) / o.batch_size;
  if (o.drop_last) return whole / o.world_size;
  if (o.world_size == 1) return all;
  if (o.even_batches) return (all + o.world_size - 1) / o.world_size;
  return all / o.world_size + (o.rank < all % o.world_size ? 1 : 0);
}

}  // namespace

Sampler::Sampler(SamplerOptions options, std::span<const int32_t> lengths)
    : options_(options), lengths_(lengths.begin(), lengths.end()) {
  const auto& o = options_;
  if (o.size < 1 || o.batch_size < 1 || o.world_size < 1 || o.rank < 0 || o.rank >= o.world_size)
    fail(ErrorCode::kUsage,
         "sampler: wants at least one sample, batch_size >= 1 and 0 <= rank < world_size; found {} samples, "
         "batch_size {}, rank {} of {}",
         o.size, o.batch_size, o.rank, o.world_size);
  if (o.strategy == SamplingStrategy::kGroupByLength && lengths_.size() != static_cast<size_t>(o.size))
    fail(ErrorCode::kUsage, "sampler: group_by_length wants a length for each of {} samples, found {}",
         o.size, lengths_.size());
  batches_ = count_batches(o);
}

std::span<const int32_t> Sampler::order(int64_t epoch) {
  if (epoch == epoch_) return order_;
  const uint64_t seed = options_.seed + static_cast<uint64_t>(epoch);
  switch (options_.strategy) {
    case SamplingStrategy::kRandom:
      order_ = TorchGenerator(seed).randperm(options_.size);
      break;
    case SamplingStrategy::kSequential:
      order_.resize(static_cast<size_t>(options_.size));
      std::iota(order_.begin(), order_.end(), 0);
      break;
    case SamplingStrategy::kGroupByLength:
      order_ = length_grouped_order(
          lengths_, options_.length_group > 0 ? options_.length_group : options_.batch_size, seed);
      break;
  }
  epoch_ = epoch;
  return order_;
}

void Sampler::batch(int64_t epoch, int64_t index, std::vector<int32_t>& out) {
  if (index < 0 || index >= batches_)
    fail(ErrorCode::kUsage, "sampler: wants a batch below {}, found {}", batches_, index);
  const auto all = order(epoch);
  const int64_t size = options_.size;
  const int64_t begin = (index * options_.world_size + options_.rank) * options_.batch_size;
  int64_t end = begin + options_.batch_size;
  const bool wraps = options_.world_size > 1 && options_.even_batches;
  if (!wraps) end = std::min(end, size);
  out.clear();
  for (int64_t i = begin; i < end; ++i) out.push_back(all[i < size ? i : (i - size) % size]);
}

std::vector<int32_t> length_grouped_order(std::span<const int32_t> lengths, int group, uint64_t seed) {
  const auto n = static_cast<int64_t>(lengths.size());
  std::vector<int32_t> order = TorchGenerator(seed).randperm(n);
  const int64_t mega = std::clamp<int64_t>(n / (int64_t{group} * 4), 1, 50) * group;
  int64_t longest = 0;  // where the first megabatch with the greatest length begins
  for (int64_t begin = 0; begin < n; begin += mega) {
    std::stable_sort(order.begin() + begin, order.begin() + std::min(n, begin + mega),
                     [&](int32_t a, int32_t b) { return lengths[a] > lengths[b]; });
    if (lengths[order[begin]] > lengths[order[longest]]) longest = begin;
  }
  if (n > 0) std::swap(order[0], order[longest]);
  return order;
}

}  // namespace lathe
