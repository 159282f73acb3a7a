#include "lathe/program/fuse.h"

#include <algorithm>

#include "lathe/core/error.h"

namespace lathe {
namespace {

constexpr int kUnbound = -2;  // −1 is an optional input that is not given

/// Nodes that a fused one may stand for.
struct Match {
  Node fused;
  std::vector<int> nodes;   ///< of every part its node
  std::vector<int> values;  ///< of every value of the fusion its id
  int first = 0, place = 0;
};

class Fuser {
 public:
  Fuser(const Program& program, const Backend& backend)
      : program_(program),
        backend_(backend),
        users_(program.values().size()),
        output_(users_.size(), false),
        taken_(program.nodes().size(), false),
        fused_(taken_.size()) {
    updates_.push_back(0);
    for (size_t n = 0; n < taken_.size(); ++n) {
      const Node& node = program.nodes()[n];
      for (const int id : node.in)
        if (id >= 0) users_[static_cast<size_t>(id)].push_back(static_cast<int>(n));
      updates_.push_back(updates_.back() + !node.op->in_place.empty());
    }
    for (const auto& [name, id] : program.outputs()) output_[static_cast<size_t>(id)] = true;
  }

  void apply(const Fusion& fusion) {
    int commutative = 0;
    for (const Fusion::Part& part : fusion.parts) commutative += part.op->commutative;
    for (size_t n = 0; n < taken_.size(); ++n) {
      if (program_.nodes()[n].op != fusion.parts.back().op) continue;
      for (unsigned swapped = 0; swapped < 1u << commutative; ++swapped) {
        Match match;
        if (!find(fusion, static_cast<int>(n), swapped, match) || !allowed(fusion, match)) continue;
        for (const int part : match.nodes) taken_[static_cast<size_t>(part)] = true;
        fused_[static_cast<size_t>(match.place)] = std::move(match.fused);
        break;
      }
    }
  }

  std::vector<Node> nodes() {
    std::vector<Node> nodes;
    for (size_t n = 0; n < taken_.size(); ++n) {
      if (fused_[n].op != nullptr)
        nodes.push_back(std::move(fused_[n]));
      else if (!taken_[n])
        nodes.push_back(program_.nodes()[n]);
    }
    return nodes;
  }

 private:
  const Node& node(int n) const { return program_.nodes()[static_cast<size_t>(n)]; }

  static bool bind(const std::vector<int>& numbers, const std::vector<int>& ids, std::vector<int>& values) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      int& bound = values[static_cast<size_t>(numbers[i])];
      if (bound == kUnbound) bound = ids[i];
      if (bound != ids[i]) return false;
    }
    return true;
  }

  /// The nodes of all parts, from the last part, node n, back to the first.  Bit i of `swapped`: the inputs
  /// of the i-th commutative part, counted from the last, change places.
  bool find(const Fusion& fusion, int n, unsigned swapped, Match& match) const {
    match.nodes.resize(fusion.parts.size());
    match.values.assign(fusion.values, kUnbound);
    for (size_t p = fusion.parts.size(); p-- > 0;) {
      const Fusion::Part& part = fusion.parts[p];
      if (p + 1 < fusion.parts.size()) {
        const auto fed = std::find_if(part.out.begin(), part.out.end(), [&](int v) {
          return match.values[static_cast<size_t>(v)] != kUnbound;
        });
        const int id = match.values[static_cast<size_t>(*fed)];
        n = id < 0 ? -1 : program_.values()[static_cast<size_t>(id)].producer;
      }
      if (n < 0 || node(n).op != part.op || taken_[static_cast<size_t>(n)]) return false;
      std::vector<int> in = node(n).in;
      if (part.op->commutative) {
        if (swapped & 1) std::swap(in[0], in[1]);
        swapped >>= 1;
      }
      if (!bind(part.out, node(n).out, match.values) || !bind(part.in, in, match.values)) return false;
      for (const auto& [own, name] : part.attrs) match.fused.attrs[name] = node(n).attrs.at(own);
      match.nodes[p] = n;
    }
    return true;
  }

  bool allowed(const Fusion& fusion, Match& match) const {
    std::vector<int> nodes = match.nodes;
    std::sort(nodes.begin(), nodes.end());
    if (std::adjacent_find(nodes.begin(), nodes.end()) != nodes.end()) return false;
    const auto within = [&](int n) { return std::binary_search(nodes.begin(), nodes.end(), n); };
    match.first = nodes.front(), match.place = nodes.back();
    if (updates_[static_cast<size_t>(match.place)] != updates_[static_cast<size_t>(match.first)])
      return false;
    for (const int n : nodes)
      if (node(n).segment != node(nodes[0]).segment) return false;
    for (size_t v = 0; v < match.values.size(); ++v) {
      const int id = match.values[v];
      const int producer = id < 0 ? -1 : program_.values()[static_cast<size_t>(id)].producer;
      if (v < fusion.inputs) {
        if (producer >= 0 && within(producer)) return false;
        continue;
      }
      const bool given = fusion.is_output(static_cast<int>(v));
      if (!given && output_[static_cast<size_t>(id)]) return false;
      for (const int user : users_[static_cast<size_t>(id)])
        if (!within(user) && (!given || user < match.place)) return false;
    }
    return accepted(fusion, match);
  }

  /// Completes the fused node and asks the backend.
  bool accepted(const Fusion& fusion, Match& match) const {
    Node& fused = match.fused;
    fused.op = fusion.op;
    fused.in.assign(match.values.begin(), match.values.begin() + static_cast<long>(fusion.inputs));
    for (const int v : fusion.out) fused.out.push_back(match.values[static_cast<size_t>(v)]);
    fused.segment = node(match.place).segment;
    if (!admitted(fused)) return false;
    for (const Impl* impl : backend_.implementations(*fused.op))
      if (!impl->accepts || impl->accepts(fused, program_)) return true;
    return false;
  }

  /// The signature of a fused op may be narrower than those of its parts.
  bool admitted(const Node& fused) const {
    std::vector<Type> in;
    for (const int id : fused.in) in.push_back(id < 0 ? Type{DType::f32, {-1}} : program_.type(id));
    try {
      const std::vector<Type> out = infer_types(*fused.op, in, fused.attrs);
      for (size_t o = 0; o < out.size(); ++o)
        if (out[o] != program_.type(fused.out[o])) return false;
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  const Program& program_;
  const Backend& backend_;
  std::vector<std::vector<int>> users_;  // by value: nodes that read it
  std::vector<bool> output_;             // by value: of the program
  std::vector<bool> taken_;              // by node: a part of a fused one
  std::vector<Node> fused_;              // by place; no op: none
  std::vector<int> updates_;             // nodes before that one that update something in place
};

}  // namespace

void fuse(Program& program, const Backend& backend, std::span<const Fusion> fusions) {
  Fuser fuser(program, backend);
  for (const Fusion& fusion : fusions) fuser.apply(fusion);
  program.rewrite(fuser.nodes());
}

}  // namespace lathe
