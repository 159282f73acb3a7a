#include "lathe/ops/ops.h"

namespace lathe {

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

}  // namespace lathe
