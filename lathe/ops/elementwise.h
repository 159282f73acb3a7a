#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef add, mul, scale, cast, relu, relu_bwd, tanh, tanh_bwd, gelu, gelu_bwd, gated, gated_bwd;

}  // namespace lathe::op
