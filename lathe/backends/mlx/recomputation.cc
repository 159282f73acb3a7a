#include "lathe/backends/mlx/recomputation.h"

#include <numeric>
#include <tuple>

namespace lathe::mlx {
namespace {

/// Of every value the last node that reads it; of the program's outputs the end.
std::vector<size_t> last_readers(const Program& program) {
  std::vector<size_t> last(program.values().size(), 0);
  for (size_t n = 0; n < program.nodes().size(); ++n)
    for (const int id : program.nodes()[n].in)
      if (id >= 0) last[static_cast<size_t>(id)] = n;
  for (const auto& [name, id] : program.outputs()) last[static_cast<size_t>(id)] = program.nodes().size();
  return last;
}

std::vector<size_t> beginnings(const Program& program) {
  std::map<std::tuple<const OpDef*, Attrs, std::vector<int>>, const Node*> nodes;  // of segments
  std::vector<int> same(program.values().size());  // of what is computed once more the first, else itself
  std::iota(same.begin(), same.end(), 0);
  std::vector<size_t> begins;
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
    if (!reads_anew) begins.push_back(n);
    for (size_t o = 0; o < node.out.size(); ++o)
      same[static_cast<size_t>(node.out[o])] = found->second->out[o];
  }
  return begins;
}

}  // namespace

std::map<size_t, std::vector<int>> recomputations(const Program& program) {
  const std::vector<size_t> last = last_readers(program);
  std::map<size_t, std::vector<int>> all;
  size_t since = 0;
  for (const size_t begin : beginnings(program)) {
    for (size_t n = since; n < begin; ++n)
      for (const int id : program.nodes()[n].out)
        if (last[static_cast<size_t>(id)] >= begin) all[begin].push_back(id);
    since = begin;
  }
  return all;
}

}  // namespace lathe::mlx
