#pragma once
#include <cstdint>
#include <vector>

#include "lathe/program/op.h"

namespace lathe {

namespace op {
extern const OpDef rotary;
}

/// What op::rotary turns columns i and i + D/2 of a head by, per position: theta^(−2i/D) for i < D/2, rounded
/// to f32.  width: D, even.  Source: HF ROPE_INIT_FUNCTIONS["default"].
std::vector<float> rotary_frequencies(int64_t width, double theta);

}  // namespace lathe
