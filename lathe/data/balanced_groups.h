#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lathe {

/// Neighbours among samples that are sorted by length.
struct SampleGroup {
  int64_t begin = 0, count = 0;
};

/// Divides samples into steps · ranks groups of neighbours, none empty, whose costs as padded batches come
/// close to one another: count · longest · (1 + longest / 1000), the second term for attention.  lengths:
/// longest first, at least one sample per group.  Returns the groups, dearest first; group s · ranks + r is
/// for step s and rank r.
/// Source: transformers' BatchRebalanceSampler, a hill climb that moves one sample at a time from the dearest
/// group to the cheapest; to the same groups.
std::vector<SampleGroup> balanced_groups(std::span<const int32_t> lengths, int64_t steps, int64_t ranks);

}  // namespace lathe
