#include "lathe/ops/ops.h"

#include <algorithm>

namespace lathe {

namespace op {
#define LT_OP(name) extern const OpDef name;
#include "lathe/ops/list.inc"
#undef LT_OP
}  // namespace op

const std::vector<const OpDef*>& all_ops() {
  static const std::vector<const OpDef*> list = {
#define LT_OP(name) &op::name,
#include "lathe/ops/list.inc"
#undef LT_OP
  };
  return list;
}

const OpDef* find_op(const std::string& name) {
  for (const OpDef* op : all_ops())
    if (name == op->name) return op;
  return nullptr;
}

const std::vector<Fusion>& fusions() {
  static const std::vector<Fusion> list = [] {
    std::vector<Fusion> all;
    for (const OpDef* op : all_ops())
      if (op->fuses != nullptr) all.push_back(take_apart(*op, find_op));
    std::stable_sort(all.begin(), all.end(),
                     [](const Fusion& a, const Fusion& b) { return a.parts.size() > b.parts.size(); });
    return all;
  }();
  return list;
}

}  // namespace lathe
