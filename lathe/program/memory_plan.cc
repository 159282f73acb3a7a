#include <algorithm>

#include "lathe/program/backend.h"

namespace lathe {
namespace {

/// Follows views and in-place updates to the value whose memory they share.
class Roots {
 public:
  explicit Roots(const Program& program)
      : program_(program), root_(program.values().size()), offset_(root_.size()) {
    for (size_t i = 0; i < root_.size(); ++i) root_[i] = static_cast<int>(i);
    for (const Node& node : program.nodes()) visit(node);
  }
  int root(int id) const {
    while (root_[static_cast<size_t>(id)] != id) id = root_[static_cast<size_t>(id)];
    return id;
  }
  size_t offset(int id) const {
    size_t total = 0;
    for (; root_[static_cast<size_t>(id)] != id; id = root_[static_cast<size_t>(id)])
      total += offset_[static_cast<size_t>(id)];
    return total;
  }

 private:
  void link(int id, int to, size_t offset) {
    root_[static_cast<size_t>(id)] = to;
    offset_[static_cast<size_t>(id)] = offset;
  }
  void visit(const Node& node) {
    for (const InPlace& alias : node.op->in_place)
      link(node.out[static_cast<size_t>(alias.out)], node.in[static_cast<size_t>(alias.in)], 0);
    if (node.op->aliasing == Aliasing::kSlice) {
      const size_t element = size_of(program_.type(node.in[0]).dtype);
      link(node.out[0], node.in[0], static_cast<size_t>(node.attrs.i("offset")) * element);
    }
    if (node.op->aliasing != Aliasing::kConcat) return;
    size_t at = 0;
    for (int id : node.in) {
      if (root_[static_cast<size_t>(id)] != id ||
          program_.values()[static_cast<size_t>(id)].kind == ValueKind::kState)
        fail(ErrorCode::kInternal, "memory plan: value {} cannot become a part of %{}", id, node.out[0]);
      link(id, node.out[0], at);
      at += bytes_of(program_.type(id));
    }
  }

  const Program& program_;
  std::vector<int> root_;
  std::vector<size_t> offset_;
};

struct Lifetime {
  int value = 0;
  int first = 0, last = 0;  ///< node indices, inclusive
  size_t bytes = 0, offset = 0;
};

/// The last node beside which each node may still run: itself, or the one before the next with late outputs.
std::vector<int> last_beside(const Program& program, const Selection& selection) {
  int last = static_cast<int>(program.nodes().size());
  std::vector<int> beside(program.nodes().size());
  for (int n = last - 1; n >= 0; --n) {
    const size_t i = static_cast<size_t>(n);
    const bool late = selection[i]->late_outputs != 0;
    beside[i] = late ? last : n;
    if (late) last = n - 1;
  }
  return beside;
}

std::vector<Lifetime> lifetimes(const Program& program, const Selection& selection, const Roots& roots) {
  const int end = static_cast<int>(program.nodes().size());
  const std::vector<int> beside = last_beside(program, selection);
  std::vector<Lifetime> of(program.values().size());
  for (size_t id = 0; id < of.size(); ++id) of[id] = {static_cast<int>(id), end, -1, 0, 0};
  const auto touch = [&](int id, int node) {
    Lifetime& life = of[static_cast<size_t>(roots.root(id))];
    life.first = std::min(life.first, node);
    life.last = std::max(life.last, node);
  };
  for (size_t id = 0; id < of.size(); ++id)
    if (program.values()[id].kind == ValueKind::kInput) touch(static_cast<int>(id), 0);
  for (int n = 0; n < end; ++n) {
    const Node& node = program.nodes()[static_cast<size_t>(n)];
    for (const int at : {n, beside[static_cast<size_t>(n)]}) {
      for (int id : node.in)
        if (id >= 0) touch(id, at);
      for (int id : node.out) touch(id, at);
    }
  }
  for (const auto& [name, id] : program.outputs()) touch(id, end);
  std::vector<Lifetime> used;
  for (Lifetime& life : of) {
    if (life.last < 0 || program.values()[static_cast<size_t>(life.value)].kind == ValueKind::kState)
      continue;
    life.bytes = bytes_of(program.type(life.value));
    used.push_back(life);
  }
  return used;
}

/// Largest first, each at the lowest offset that no value alive at the same time occupies.
size_t assign_offsets(std::vector<Lifetime>& values, size_t alignment) {
  std::stable_sort(values.begin(), values.end(),
                   [](const Lifetime& a, const Lifetime& b) { return a.bytes > b.bytes; });
  std::vector<const Lifetime*> placed;  // by offset
  size_t end = 0;
  for (Lifetime& value : values) {
    size_t at = 0;
    for (const Lifetime* other : placed) {
      if (other->last < value.first || value.last < other->first) continue;
      if (at + value.bytes <= other->offset) break;
      at = std::max(at, (other->offset + other->bytes + alignment - 1) / alignment * alignment);
    }
    value.offset = at;
    placed.insert(std::upper_bound(placed.begin(), placed.end(), at,
                                   [](size_t offset, const Lifetime* l) { return offset < l->offset; }),
                  &value);
    end = std::max(end, at + value.bytes);
  }
  return (end + alignment - 1) / alignment * alignment;
}

}  // namespace

MemoryPlan plan_memory(const Program& program, const Selection& selection, size_t alignment) {
  const Roots roots(program);
  std::vector<Lifetime> values = lifetimes(program, selection, roots);
  MemoryPlan plan;
  plan.workspace_offset = assign_offsets(values, alignment);
  size_t workspace = 0, late_workspace = 0;
  for (size_t n = 0; n < selection.size(); ++n) {
    if (!selection[n]->workspace_bytes) continue;
    size_t& most = selection[n]->late_outputs != 0 ? late_workspace : workspace;
    most = std::max(most, selection[n]->workspace_bytes(program.nodes()[n], program));
  }
  plan.late_workspace_offset = plan.workspace_offset + (workspace + alignment - 1) / alignment * alignment;
  plan.arena_bytes =
      late_workspace > 0 ? plan.late_workspace_offset + late_workspace : plan.workspace_offset + workspace;
  std::vector<size_t> offset(program.values().size(), 0);
  for (const Lifetime& life : values) offset[static_cast<size_t>(life.value)] = life.offset;
  for (size_t id = 0; id < program.values().size(); ++id) {
    const int root = roots.root(static_cast<int>(id));
    const bool state = program.values()[static_cast<size_t>(root)].kind == ValueKind::kState;
    plan.places.push_back(
        {state ? root : -1, offset[static_cast<size_t>(root)] + roots.offset(static_cast<int>(id))});
  }
  return plan;
}

}  // namespace lathe
