#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef layer_norm, layer_norm_bwd;

}  // namespace lathe::op
