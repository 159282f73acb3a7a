#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef linear_fp8, linear_fp8_bwd_input;

}  // namespace lathe::op
