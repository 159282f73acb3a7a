#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef first_attention, first_attention_bwd;

}  // namespace lathe::op
