#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef head_norm, head_norm_bwd;

}  // namespace lathe::op
