#pragma once
#include <cstdint>

#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef attention, attention_bwd;

/// The number of pairs of a query and a key that it sees, in a row of this many tokens: all, or with a window
/// > 0 those at most that many tokens apart.
double attended_pairs(double tokens, int64_t window);

}  // namespace lathe::op
