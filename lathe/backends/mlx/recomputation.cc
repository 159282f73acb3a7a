#include "lathe/backends/mlx/recomputation.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>

#include "lathe/ops/attention.h"
#include "lathe/ops/elementwise.h"
#include "lathe/ops/linear.h"
#include "lathe/ops/norms/layer_norm.h"

namespace lathe::mlx {
namespace {

/// For every value the last node that reads it; for outputs of the program the end.
std::vector<size_t> last_readers(const Program& program) {
  std::vector<size_t> last(program.values().size(), 0);
  for (size_t n = 0; n < program.nodes().size(); ++n)
    for (const int id : program.nodes()[n].in)
      if (id >= 0) last[static_cast<size_t>(id)] = n;
  for (const auto& [name, id] : program.outputs()) last[static_cast<size_t>(id)] = program.nodes().size();
  return last;
}

/// The nodes with which gradient checkpointing begins to compute something once more.
std::set<size_t> beginnings(const Program& program) {
  std::map<std::tuple<const OpDef*, Attrs, std::vector<int>>, const Node*> nodes;  // of segments
  std::vector<int> same(program.values().size());  // of what is computed once more the first, else itself
  std::iota(same.begin(), same.end(), 0);
  std::set<size_t> begins;
  for (size_t n = 0; n < program.nodes().size(); ++n) {
    const Node& node = program.nodes()[n];
    std::vector<int> in;
    bool reads_anew = false;
    for (const int id : node.in) {
      in.push_back(id < 0 ? id : same[static_cast<size_t>(id)]);
      reads_anew = reads_anew || in.back() != id;
    }
    const std::tuple key(node.op, node.attrs, in);
    if (node.segment >= 0) {
      nodes.emplace(key, &node);
      continue;
    }
    const auto found = nodes.find(key);
    if (found == nodes.end()) continue;
    if (!reads_anew) begins.insert(n);
    for (size_t o = 0; o < node.out.size(); ++o)
      same[static_cast<size_t>(node.out[o])] = found->second->out[o];
  }
  return begins;
}

/// Whether the op takes a gradient and, second, what it computes anew: what the forward op has computed of
/// the same, or rounded.
bool repeats(const OpDef& op) {
  static const std::set<std::string_view> names{op::attention_bwd.name, op::gelu_bwd.name, op::gated_bwd.name,
                                                op::layer_norm_bwd.name, op::linear_bwd_input.name};
  return names.contains(op.name);
}

/// Of a node of a segment, which is no parameter.
size_t flowing_input(const Node& node, const Program& program) {
  const auto found = std::ranges::find_if(node.in, [&](int id) {
    return id >= 0 && program.values()[static_cast<size_t>(id)].kind == ValueKind::kTemp;
  });
  return found == node.in.end() ? 0 : static_cast<size_t>(found - node.in.begin());
}

}  // namespace

std::map<size_t, Waiting> recomputations(const Program& program) {
  const std::vector<size_t> last = last_readers(program);
  const std::set<size_t> checkpointed = beginnings(program);
  std::map<size_t, Waiting> all;
  size_t since = 0;
  for (size_t n = 0; n < program.nodes().size(); ++n) {
    const Node& node = program.nodes()[n];
    const bool repeating = repeats(*node.op);
    if (!repeating && !checkpointed.contains(n)) continue;
    Waiting& waiting = all[n];
    waiting.input = repeating ? 1 : flowing_input(node, program);
    if (repeating) waiting.values.push_back(node.in[0]);
    for (; since < n; ++since)
      for (const int id : program.nodes()[since].out)
        if (last[static_cast<size_t>(id)] >= n) waiting.values.push_back(id);
  }
  return all;
}

}  // namespace lathe::mlx
