#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef cross_entropy, cross_entropy_bwd, segment_cross_entropy, segment_cross_entropy_bwd, mse,
    mse_bwd, bce_with_logits, bce_with_logits_bwd;

}  // namespace lathe::op
