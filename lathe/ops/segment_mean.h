#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef segment_mean, segment_mean_bwd;

}  // namespace lathe::op
