#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef linear, linear_bwd_input, linear_bwd_weight;

}  // namespace lathe::op
