#include "lathe/data/sampler.h"

#include <algorithm>
#include <numeric>

#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"
#include "lathe/data/retrieval/no_duplicates.h"
#include "lathe/data/torch_random.h"

namespace lathe {
namespace {

int64_t count_batches(const SamplerOptions& o) {
  if (o.strategy == SamplingStrategy::kBatchRebalance) {
    const int64_t samples = int64_t{o.batch_size} * o.accumulation * o.world_size;
    return (o.size / samples + (!o.drop_last && o.size % samples > 0 ? 1 : 0)) * o.accumulation;
  }
  const int64_t whole = o.size / o.batch_size, all = ceil_div(o.size, o.batch_size);
  if (o.drop_last) return whole / o.world_size;
  if (o.world_size == 1) return all;
  if (o.even_batches) return ceil_div(all, o.world_size);
  return all / o.world_size + (o.rank < all % o.world_size ? 1 : 0);
}

}  // namespace

Sampler::Sampler(SamplerOptions options, std::span<const int32_t> lengths)
    : options_(options), lengths_(lengths.begin(), lengths.end()) {
  const auto& o = options_;
  if (o.size < 1 || o.batch_size < 1 || o.world_size < 1 || o.rank < 0 || o.rank >= o.world_size)
    fail(ErrorCode::kUsage,
         "sampler: expected at least one sample, batch_size >= 1 and 0 <= rank < world_size; found {} "
         "samples, "
         "batch_size {}, rank {} of {}",
         o.size, o.batch_size, o.rank, o.world_size);
  const bool by_length =
      o.strategy == SamplingStrategy::kGroupByLength || o.strategy == SamplingStrategy::kBatchRebalance;
  if (by_length && lengths_.size() != static_cast<size_t>(o.size))
    fail(ErrorCode::kUsage, "sampler: an order by length needs one for each of {} samples, found {}", o.size,
         lengths_.size());
  if (o.strategy == SamplingStrategy::kNoDuplicates && std::ssize(o.texts) != o.size)
    fail(ErrorCode::kUsage, "sampler: expected the texts of {} samples, found {}", o.size, o.texts.size());
  batches_ = count_batches(o);
}

std::span<const int32_t> Sampler::order(int64_t epoch) {
  if (epoch < 0) fail(ErrorCode::kUsage, "sampler: expected an epoch of 0 or more, found {}", epoch);
  if (epoch == epoch_) return order_;
  const uint64_t seed = options_.seed + static_cast<uint64_t>(epoch);
  switch (options_.strategy) {
    case SamplingStrategy::kRandom:
    case SamplingStrategy::kNoDuplicates:
    case SamplingStrategy::kBatchRebalance:
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

void Sampler::batch_of(int rank, int64_t epoch, int64_t index, std::vector<int32_t>& out) {
  if (index < 0 || index >= batches_)
    fail(ErrorCode::kUsage, "sampler: expected a batch below {}, found {}", batches_, index);
  if (rank < 0 || rank >= options_.world_size)
    fail(ErrorCode::kUsage, "sampler: expected a rank below {}, found {}", options_.world_size, rank);
  if (options_.strategy == SamplingStrategy::kBatchRebalance) {
    const Update& all = update(epoch, index / options_.accumulation);
    const int64_t micro = index % options_.accumulation;
    const SampleGroup& group = all.groups[static_cast<size_t>(micro * options_.world_size + rank)];
    const auto begin = all.samples.begin() + group.begin;
    out.assign(begin, begin + group.count);
    return;
  }
  if (options_.strategy == SamplingStrategy::kNoDuplicates)
    return unlike_batch(index * options_.world_size + rank, epoch, out);
  const auto all = order(epoch);
  const int64_t size = options_.size;
  const int64_t begin = (index * options_.world_size + rank) * options_.batch_size;
  int64_t end = begin + options_.batch_size;
  const bool wraps = options_.world_size > 1 && options_.even_batches;
  if (!wraps) end = std::min(end, size);
  out.clear();
  for (int64_t i = begin; i < end; ++i) out.push_back(all[i < size ? i : (i - size) % size]);
}

void Sampler::unlike_batch(int64_t number, int64_t epoch, std::vector<int32_t>& out) {
  if (epoch != unlike_epoch_) {
    unlike_ = no_duplicates_batches(options_.texts, {.batch_size = options_.batch_size,
                                                     .drop_last = options_.drop_last,
                                                     .seed = options_.seed + static_cast<uint64_t>(epoch)})
                  .batches;
    unlike_epoch_ = epoch;
    if (unlike_.empty())
      fail(ErrorCode::kUsage,
           "--batch_sampler no_duplicates: found equal texts in so many samples that no batch of {} has "
           "different ones; take fewer with --per_device_train_batch_size",
           options_.batch_size);
  }
  out = unlike_[static_cast<size_t>(number) % unlike_.size()];
  const bool alike = options_.world_size > 1 && options_.even_batches;  // ranks have batches of one size
  for (size_t i = 0; alike && std::ssize(out) < options_.batch_size; ++i)
    out.push_back(unlike_[0][i % unlike_[0].size()]);
}

int64_t Sampler::ordinal(int64_t epoch, int64_t index) {
  const SamplerOptions& o = options_;
  const int64_t micro = index % o.accumulation;
  if (o.strategy != SamplingStrategy::kBatchRebalance) return (micro * o.world_size + o.rank) * o.batch_size;
  const Update& all = update(epoch, index / o.accumulation);
  return all.groups[static_cast<size_t>(micro * o.world_size + o.rank)].begin;
}

const Sampler::Update& Sampler::update(int64_t epoch, int64_t index) {
  if (update_.epoch == epoch && update_.index == index) return update_;
  const auto all = order(epoch);
  const int64_t groups = int64_t{options_.accumulation} * options_.world_size;
  const int64_t begin = index * groups * options_.batch_size;
  const int64_t end = std::min(begin + groups * options_.batch_size, options_.size);
  update_ = {epoch, index, {all.begin() + begin, all.begin() + end}, {}};
  for (int64_t i = 0; static_cast<int64_t>(update_.samples.size()) < groups; ++i)  // every group has one
    update_.samples.push_back(all[static_cast<size_t>(i % options_.size)]);
  std::vector<int32_t>& samples = update_.samples;
  std::stable_sort(samples.begin(), samples.end(),
                   [&](int32_t a, int32_t b) { return lengths_[a] > lengths_[b]; });
  std::vector<int32_t> lengths;
  for (const int32_t sample : samples) lengths.push_back(lengths_[static_cast<size_t>(sample)]);
  update_.groups = balanced_groups(lengths, options_.accumulation, options_.world_size);
  return update_;
}

std::vector<int32_t> length_grouped_order(std::span<const int32_t> lengths, int group, uint64_t seed) {
  if (group < 1) fail(ErrorCode::kUsage, "sampler: expected groups of 1 and more samples, found {}", group);
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
