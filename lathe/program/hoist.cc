#include "lathe/program/hoist.h"

#include <algorithm>
#include <numeric>

#include "lathe/program/op.h"

namespace lathe {
namespace {

/// Nodes of op, and the views that only they read.
std::vector<bool> movable(const Program& program, const OpDef& op) {
  const auto& nodes = program.nodes();
  std::vector<int> users(program.values().size(), 0), movable_users(users.size(), 0);
  std::vector<bool> moves(nodes.size(), false);
  for (const Node& node : nodes)
    for (const int id : node.in)
      if (id >= 0) ++users[static_cast<size_t>(id)];
  for (const auto& [name, id] : program.outputs()) ++users[static_cast<size_t>(id)];
  for (size_t n = nodes.size(); n-- > 0;) {
    const Node& node = nodes[n];
    const size_t out = static_cast<size_t>(node.out[0]);
    moves[n] = node.op == &op || (node.op->aliasing != Aliasing::kNone && movable_users[out] > 0 &&
                                  movable_users[out] == users[out]);
    if (!moves[n]) continue;
    for (const int id : node.in)
      if (id >= 0) ++movable_users[static_cast<size_t>(id)];
  }
  return moves;
}

}  // namespace

void hoist(Program& program, const OpDef& op) {
  const auto& nodes = program.nodes();
  const std::vector<bool> moves = movable(program, op);
  std::vector<int> follows(nodes.size());  // by node: the node that stays and that it follows
  int last = -1;                           // of the node of op before
  for (size_t n = 0; n < nodes.size(); ++n) {
    follows[n] = static_cast<int>(n);
    if (!moves[n]) continue;
    int place = nodes[n].op == &op ? last : -1;
    for (const int id : nodes[n].in) {
      const int producer = id < 0 ? -1 : program.values()[static_cast<size_t>(id)].producer;
      if (producer >= 0) place = std::max(place, follows[static_cast<size_t>(producer)]);
    }
    follows[n] = place;
    if (nodes[n].op == &op) last = place;
  }
  std::vector<size_t> order(nodes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(follows[a], static_cast<int>(moves[a])) <
           std::pair(follows[b], static_cast<int>(moves[b]));
  });
  std::vector<Node> moved;
  for (const size_t n : order) moved.push_back(nodes[n]);
  program.rewrite(std::move(moved));
}

}  // namespace lathe
