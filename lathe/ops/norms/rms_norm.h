#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef rms_norm, rms_norm_bwd;

}  // namespace lathe::op
