#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef slice, concat, accumulate;

}  // namespace lathe::op
