#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef all_gather;

}  // namespace lathe::op
