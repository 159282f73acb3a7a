#include "lathe/program/autograd.h"

#include <utility>

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

/// Values for the rules: as the forward pass left them, or computed anew where it shall not keep them.
class Recomputation {
 public:
  explicit Recomputation(Program& program) : program_(program), again_(program.values().size(), -1) {}

  /// The node as its rule shall see it.
  Node node(Node node) {
    for (auto* ids : {&node.in, &node.out})
      for (int& id : *ids) id = value(id, node.segment);
    return node;
  }

 private:
  /// What stands for value `id` of the forward pass in a node of that segment.  What flows from one segment
  /// to another is kept.
  int value(int id, int segment) {
    const int producer = id < 0 ? -1 : program_.values()[static_cast<size_t>(id)].producer;
    if (producer < 0) return id;
    const Node node = program_.nodes()[static_cast<size_t>(producer)];  // a copy: nodes are appended
    if (segment < 0 || node.segment != segment) return id;
    if (again_[static_cast<size_t>(id)] < 0) compute_again(node);
    return again_[static_cast<size_t>(id)];
  }
  void compute_again(const Node& node) {
    std::vector<Value> in;
    for (int from : node.in) in.push_back(from < 0 ? Value{} : Value{&program_, value(from, node.segment)});
    const std::vector<Value> out = program_.emit(*node.op, in, node.attrs);
    for (size_t i = 0; i < out.size(); ++i) again_[static_cast<size_t>(node.out[i])] = out[i].id;
  }

  Program& program_;
  std::vector<int> again_;  // by value of the forward pass; −1: not yet
};

}  // namespace

std::vector<Value> gradients(Value loss, Value seed, const std::vector<Value>& wrt, const OpDef& sum) {
  Program& program = *loss.program;
  const std::vector<bool> reached = reachable(program, wrt);
  std::vector<Value> grad(program.values().size());
  grad[static_cast<size_t>(loss.id)] = seed;
  Recomputation recomputation(program);
  for (size_t n = program.nodes().size(); n-- > 0;) {
    const Node node = program.nodes()[n];  // a copy: rules append nodes
    std::vector<Value> dout;
    bool flows = false, wanted = false;
    for (int id : node.out) {
      dout.push_back(grad[static_cast<size_t>(id)]);
      flows = flows || dout.back();
    }
    for (int id : node.in) wanted = wanted || (id >= 0 && reached[static_cast<size_t>(id)]);
    if (!flows || !wanted) continue;
    if (node.op->fuses != nullptr)
      fail(ErrorCode::kInternal, "autograd: {} is fused; differentiate its parts and fuse after that",
           node.op->name);
    const Node seen = recomputation.node(node);
    for (size_t o = dout.size() - node.op->auxiliary_outputs; o < dout.size(); ++o)
      if (dout[o])
        fail(ErrorCode::kUnsupported,
             "{}: gives no gradient through its output {}, which the loss depends on", node.op->name,
             output_names(*node.op)[o]);
    const std::vector<Value> din = gradient_of({program, seen, std::move(dout)});
    for (size_t i = 0; i < din.size(); ++i) {
      if (node.in[i] < 0 || !reached[static_cast<size_t>(node.in[i])]) continue;
      if (!has_gradient(program.type(node.in[i]).dtype)) continue;
      if (!din[i])
        fail(ErrorCode::kUnsupported, "{}: gives no gradient of {}, which depends on what is trained",
             node.op->name, input_name(*node.op, i));
      Value& total = grad[static_cast<size_t>(node.in[i])];
      total = total ? program.emit(sum, {total, din[i]})[0] : din[i];
    }
  }
  std::vector<Value> result;
  for (const Value& w : wrt) {
    result.push_back(grad[static_cast<size_t>(w.id)]);
    if (!result.back())
      fail(ErrorCode::kInternal,
           "autograd: what is differentiated does not depend on value {} {}: freeze that, or leave it out",
           w.id, program.values()[static_cast<size_t>(w.id)].name);
  }
  return result;
}

}  // namespace lathe
