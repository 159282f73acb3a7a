#pragma once
#include <cstdint>

#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef attention, attention_bwd;  // attributes: attention.cc

/// The number of pairs of a query and a key that it sees, in a row of this many tokens: all, or with a window
/// > 0 those at most that many tokens apart; causal: of these the keys that do not come after their query.
double attended_pairs(double tokens, int64_t window, bool causal = false);

/// Whether each head has a k and a v of its own, and sees keys on both sides, as in encoders: what a device
/// takes that knows no more.
bool is_encoders(const Attrs& attrs);

}  // namespace lathe::op
