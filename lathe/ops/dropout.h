#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef dropout;

}  // namespace lathe::op
