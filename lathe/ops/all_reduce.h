#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef all_reduce;

}  // namespace lathe::op
