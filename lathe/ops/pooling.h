#pragma once
#include "lathe/ops/segment_weights.h"
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef segment_sum, segment_sum_bwd, segment_max, segment_max_bwd, l2_normalize, l2_normalize_bwd;

/// The attribute of segment_sum and its gradient.  Errors: kShape for another name.
SegmentWeights segment_weights(const Attrs& attrs);

}  // namespace lathe::op
