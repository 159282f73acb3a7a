#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef gather_rows, look_up, scatter_add_rows;

}  // namespace lathe::op
