#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef linear_int8;

}  // namespace lathe::op
