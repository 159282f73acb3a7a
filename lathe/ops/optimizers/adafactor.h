#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef adafactor;

}  // namespace lathe::op
