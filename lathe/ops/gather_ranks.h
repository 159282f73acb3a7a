#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef gather_ranks;

}  // namespace lathe::op
