#pragma once
#include <cstdint>

namespace lathe::op {

/// Pairs of a query and a key that it sees in a row of so many tokens: all, or with a window > 0 those that
/// are at most so many tokens apart.
double attended_pairs(double tokens, int64_t window);

}  // namespace lathe::op
