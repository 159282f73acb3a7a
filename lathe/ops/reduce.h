#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef mean, mean_bwd;

}  // namespace lathe::op
