#include "lathe/optim/shards.h"

#include <algorithm>
#include <numeric>

#include "lathe/core/error.h"
#include "lathe/ops/functional.h"

namespace lathe {

int64_t Shards::begin(int of) const {
  return std::accumulate(counts.begin(), counts.begin() + of, int64_t{0});
}

Shards shards_of(int64_t parameters, int ranks, int rank) {
  constexpr int64_t kVectors = 64;  // elements: 256 bytes, what a device aligns to
  if (parameters < ranks)
    fail(ErrorCode::kUsage,
         "--zero_stage 1: {} parameters are trained by {} processes, expected one for each", parameters,
         ranks);
  const int64_t step = parameters < kVectors * ranks ? 1 : kVectors;
  const auto begin = [&](int64_t r) {
    return r == ranks ? parameters : parameters * r / ranks / step * step;
  };
  Shards shards{{}, rank};
  for (int r = 0; r < ranks; ++r) shards.counts.push_back(begin(r + 1) - begin(r));
  return shards;
}

FlatParameters own_part(const FlatParameters& parameters, const Shards& shards) {
  if (shards.empty()) return parameters;
  return {{{shards.count()}}, std::clamp<int64_t>(parameters.decayed - shards.begin(), 0, shards.count())};
}

FlatGradients own_part(const FlatGradients& gradients, const Shards& shards) {
  if (shards.empty()) return gradients;
  return part_of(gradients, shards.begin(), shards.begin() + shards.count());
}

FlatGradients part_of(const FlatGradients& gradients, int64_t begin, int64_t end) {
  const int64_t first = gradients.first;
  const int64_t last = first + (gradients.rounded ? elements(gradients.rounded.type()) : 0);
  // Of element i: how many exact ones lie before it.
  const auto exact_before = [&](int64_t i) { return i < first ? i : std::max(first, i - (last - first)); };
  const auto view = [](Value flat, int64_t from, int64_t to) { return slice(flat, from, {to - from}); };
  FlatGradients own{view(gradients.exact, exact_before(begin), exact_before(end)), {}, 0};
  const int64_t from = std::max(begin, first), to = std::min(end, last);
  if (from >= to) return own;
  own.rounded = view(gradients.rounded, from - first, to - first);
  own.first = from - begin;
  return own;
}

}  // namespace lathe
