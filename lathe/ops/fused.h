#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef dropout_add_layer_norm, add_layer_norm, layer_norm_dropout_bwd, layer_norm_bwd_add,
    add_rms_norm, rms_norm_bwd_add, linear_bwd_input_add, linear_fp8_bwd_input_add, linear_bwd_weight_cast,
    linear_gelu, embed_layer_norm, embed_layer_norm_dropout, dropout_cast, linear_cross_entropy_with_bwd;

}  // namespace lathe::op
