#pragma once
#include <string>
#include <vector>

#include "lathe/program/fusion.h"

namespace lathe {

/// Every op, in the order of list.inc.
const std::vector<const OpDef*>& all_ops();
/// The op of that name, null if there is none.
const OpDef* find_op(const std::string& name);
/// Every fused op, taken apart; those of more parts first.
const std::vector<Fusion>& fusions();

}  // namespace lathe
