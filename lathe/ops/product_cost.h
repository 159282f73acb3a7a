#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

/// Of a product with a weight [n,k], of its gradient by the other operand, and of linear_bwd_weight.
Cost product_cost(const Node& node, const Program& program);

}  // namespace lathe::op
