#include "lathe/program/autograd.h"

#include "lathe/core/error.h"
#include "lathe/program/op.h"

namespace lathe {
namespace {

/// Which values depend on `wrt`.
std::vector<bool> reachable(const Program& program, const std::vector<Value>& wrt) {
  std::vector<bool> reached(program.values().size(), false);
  for (const Value& w : wrt) reached[static_cast<size_t>(w.id)] = true;
  for (const Node& node : program.nodes()) {
    bool any = false;
    for (int id : node.in) any = any || (id >= 0 && reached[static_cast<size_t>(id)]);
    if (any)
      for (int id : node.out) reached[static_cast<size_t>(id)] = true;
  }
  return reached;
}

}  // namespace

std::vector<Value> gradients(Value loss, Value seed, const std::vector<Value>& wrt, const OpDef& sum) {
  Program& program = *loss.program;
  const std::vector<bool> reached = reachable(program, wrt);
  std::vector<Value> grad(program.values().size());
  grad[static_cast<size_t>(loss.id)] = seed;
  for (size_t n = program.nodes().size(); n-- > 0;) {
    const Node node = program.nodes()[n];  // a copy: rules append nodes
    Grad rule{program, node, {}};
    bool flows = false, wanted = false;
    for (int id : node.out) {
      rule.dout.push_back(grad[static_cast<size_t>(id)]);
      flows = flows || rule.dout.back();
    }
    for (int id : node.in) wanted = wanted || (id >= 0 && reached[static_cast<size_t>(id)]);
    if (!flows || !wanted) continue;
    const std::vector<Value> din = node.op->gradient(rule);
    for (size_t i = 0; i < din.size(); ++i) {
      if (!din[i] || node.in[i] < 0 || !reached[static_cast<size_t>(node.in[i])]) continue;
      Value& total = grad[static_cast<size_t>(node.in[i])];
      total = total ? program.emit(sum, {total, din[i]})[0] : din[i];
    }
  }
  std::vector<Value> result;
  for (const Value& w : wrt) {
    result.push_back(grad[static_cast<size_t>(w.id)]);
    if (!result.back())
      fail(ErrorCode::kInternal, "autograd: no gradient flows to value {} {}", w.id,
           program.values()[static_cast<size_t>(w.id)].name);
  }
  return result;
}

}  // namespace lathe
