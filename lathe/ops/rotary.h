#pragma once
#include <cstdint>
#include <vector>

#include "lathe/program/op.h"

namespace lathe {

namespace op {
extern const OpDef rotary;
}

/// The frequencies of op::rotary by default, radians per position: theta^(−2i/D) for i < D/2, rounded to f32.
/// width: D, even.  Source: HF ROPE_INIT_FUNCTIONS["default"].
Numbers rotary_frequencies(int64_t width, double theta);

/// The attribute `frequencies` of a node as f32.
std::vector<float> frequencies_of(const Attrs& attrs);

}  // namespace lathe
