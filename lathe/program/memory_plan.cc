#include "lathe/program/memory_plan.h"

#include <algorithm>

#include "lathe/core/ceil_div.h"
#include "lathe/program/row_gaps.h"

namespace lathe {
namespace {

/// Follows views and in-place updates to the value whose memory they share.  A value that others were joined
/// into (Aliasing::kConcat) has these as parts.
class Roots {
 public:
  explicit Roots(const Program& program)
      : program_(program),
        up_(program.values().size()),
        offset_(up_.size()),
        joined_(up_.size()),
        whole_(up_.size()) {
    for (size_t i = 0; i < up_.size(); ++i) up_[i] = static_cast<int>(i);
    for (const Node& node : program.nodes()) visit(node);
  }
  int root(int id) const {
    while (up(id) != id) id = up(id);
    return id;
  }
  /// The part of the root that holds the value; the root where it has no parts, or is meant as a whole.
  int part(int id) const {
    int found = id;
    for (int at = id; up(at) != at; at = up(at)) found = joined_[static_cast<size_t>(at)] ? at : up(at);
    return found;
  }
  size_t offset(int id) const {
    size_t total = 0;
    for (; up(id) != id; id = up(id)) total += offset_[static_cast<size_t>(id)];
    return total;
  }
  /// A value with memory of its own that is no whole of others.
  bool simple(int id) const { return up(id) == id && !whole_[static_cast<size_t>(id)]; }
  /// From now on `id`, which is simple, lies where `under` does.
  void lay_over(int id, int under) { link(id, under, 0); }

 private:
  int up(int id) const { return up_[static_cast<size_t>(id)]; }
  void link(int id, int to, size_t offset, bool joined = false) {
    up_[static_cast<size_t>(id)] = to;
    offset_[static_cast<size_t>(id)] = offset;
    joined_[static_cast<size_t>(id)] = joined;
  }
  void visit(const Node& node) {
    for (const InPlace& alias : node.op->in_place)
      link(node.out[static_cast<size_t>(alias.out)], node.in[static_cast<size_t>(alias.in)], 0);
    if (node.op->aliasing == Aliasing::kSlice) {
      const size_t element = size_of(program_.type(node.in[0]).dtype);
      link(node.out[0], node.in[0], static_cast<size_t>(node.attrs.i("offset")) * element);
    }
    if (node.op->aliasing != Aliasing::kConcat) return;
    whole_[static_cast<size_t>(node.out[0])] = true;
    size_t at = 0;
    for (int id : node.in) {
      const int whole = root(id);  // another one than id where id updates it in place
      if (bytes_of(program_.type(whole)) != bytes_of(program_.type(id)) ||
          program_.values()[static_cast<size_t>(whole)].kind == ValueKind::kState)
        fail(ErrorCode::kInternal, "memory plan: value {} cannot become a part of %{}", id, node.out[0]);
      link(whole, node.out[0], at, true);
      at += bytes_of(program_.type(id));
    }
  }

  const Program& program_;
  std::vector<int> up_;
  std::vector<size_t> offset_;
  std::vector<bool> joined_, whole_;
};

/// Node indices, inclusive.
struct Lifetime {
  int first, last = -1;

  void extend(const Lifetime& other) {
    first = std::min(first, other.first);
    last = std::max(last, other.last);
  }
};

/// Memory with one lifetime.
struct Piece {
  Lifetime life;
  size_t bytes, offset;
};

/// A value that is placed, or the workspace of a node.  Its parts, as far as it has some, live on their own:
/// gradients of one layer come into being long after those of another, and meanwhile something else lies
/// there.
struct Block {
  int value;  // or node
  size_t bytes, offset = 0;
  Lifetime life;             // from the first of its parts to the last
  std::vector<Piece> parts;  // offsets from its beginning
};

/// Of every node.
std::vector<InUse> uses_of(const Program& program, const Selection& selection) {
  std::vector<InUse> uses;
  for (int n = 0; n < static_cast<int>(selection.size()); ++n) {
    const Impl& impl = *selection[static_cast<size_t>(n)];
    uses.push_back(impl.in_use ? impl.in_use(n, program, selection) : InUse{n, n});
  }
  return uses;
}

/// When each value's memory is in use, by value; of parts their own, of wholes what is of no part.  early:
/// kept free for outputs from InUse::first on.
std::vector<Lifetime> lifetimes(const Program& program, const std::vector<InUse>& uses, const Roots& roots,
                                bool early) {
  const int end = static_cast<int>(program.nodes().size());
  std::vector<Lifetime> of(program.values().size(), Lifetime{end});
  const auto touch = [&](int id, int node) { of[static_cast<size_t>(roots.part(id))].extend({node, node}); };
  for (size_t id = 0; id < of.size(); ++id)
    if (program.values()[id].kind == ValueKind::kInput) touch(static_cast<int>(id), 0);
  for (int n = 0; n < end; ++n) {
    const Node& node = program.nodes()[static_cast<size_t>(n)];
    const InUse& use = uses[static_cast<size_t>(n)];
    for (int id : node.in) {
      if (id < 0) continue;
      touch(id, n);
      if (use.inputs) touch(id, use.last);
    }
    for (size_t o = 0; o < node.out.size(); ++o) {
      touch(node.out[o], early ? use.first : n);
      touch(node.out[o], (use.outputs >> o & 1) != 0 ? use.last : n);
    }
  }
  for (const auto& [name, id] : program.outputs()) touch(id, end);
  return of;
}

/// Lays outputs over inputs of the same node that nothing reads any more, where implementations bear it.
void overwrite(const Program& program, const Selection& selection, const std::vector<InUse>& uses,
               const std::vector<int64_t>& ld, Roots& roots) {
  std::vector<Lifetime> lives = lifetimes(program, uses, roots, false);
  const auto life = [&](int id) -> Lifetime& { return lives[static_cast<size_t>(id)]; };
  const auto bytes = [&](int id) { return placed_bytes(program.type(id), ld[static_cast<size_t>(id)]); };
  for (int n = 0; n < static_cast<int>(selection.size()); ++n) {
    const Node& node = program.nodes()[static_cast<size_t>(n)];
    for (const InPlace& pair : selection[static_cast<size_t>(n)]->may_overwrite) {
      const int in = node.in[static_cast<size_t>(pair.in)], out = node.out[static_cast<size_t>(pair.out)];
      const bool is_read = life(out).last > n;
      if (in < 0 || !is_read || !roots.simple(out)) continue;
      const int under = roots.root(in);
      const auto lies_there = [&](int id) { return id >= 0 && roots.root(id) == under; };
      const bool is_free = roots.simple(under) && life(under).last == n && life(out).first == n &&
                           program.values()[static_cast<size_t>(under)].kind == ValueKind::kTemp &&
                           std::ranges::count_if(node.in, lies_there) == 1 &&
                           std::ranges::none_of(node.out, lies_there);
      const bool same_rows = ld[static_cast<size_t>(in)] == ld[static_cast<size_t>(out)];
      if (!is_free || !same_rows || bytes(in) != bytes(out) || bytes(under) != bytes(out)) continue;
      life(under).extend(life(out));
      roots.lay_over(out, under);
    }
  }
}

std::vector<Block> blocks_of(const Program& program, const std::vector<InUse>& uses, const Roots& roots,
                             const std::vector<int64_t>& ld) {
  const std::vector<Lifetime> lives = lifetimes(program, uses, roots, true);
  std::vector<Block> blocks;
  std::vector<size_t> block_of(lives.size());
  for (size_t id = 0; id < lives.size(); ++id) {
    const bool placed = lives[id].last >= 0 && roots.root(static_cast<int>(id)) == static_cast<int>(id) &&
                        program.values()[id].kind != ValueKind::kState;
    if (!placed) continue;
    block_of[id] = blocks.size();
    const size_t bytes = placed_bytes(program.type(static_cast<int>(id)), ld[id]);
    blocks.push_back({static_cast<int>(id), bytes, 0, lives[id], {}});
  }
  for (size_t id = 0; id < lives.size(); ++id) {
    const int value = static_cast<int>(id), root = roots.root(value);
    if (lives[id].last < 0 || root == value) continue;
    if (program.values()[static_cast<size_t>(root)].kind == ValueKind::kState) continue;
    Piece part{lives[id], placed_bytes(program.type(value), ld[id]), roots.offset(value)};
    part.life.extend(lives[static_cast<size_t>(root)]);
    Block& block = blocks[block_of[static_cast<size_t>(root)]];
    block.life.extend(part.life);
    block.parts.push_back(part);
  }
  return blocks;
}

std::vector<Block> workspaces_of(const Program& program, const Selection& selection,
                                 const std::vector<InUse>& uses) {
  std::vector<Block> blocks;
  for (size_t n = 0; n < selection.size(); ++n) {
    if (!selection[n]->workspace_bytes) continue;
    const size_t bytes = selection[n]->workspace_bytes(program.nodes()[n], program);
    const int node = static_cast<int>(n);
    if (bytes > 0) blocks.push_back({node, bytes, 0, {uses[n].first, uses[n].last}, {}});
  }
  return blocks;
}

std::vector<Block> blocks_of(std::span<const Held> held) {
  std::vector<Block> blocks;
  for (const Held& h : held)
    if (h.bytes > 0) blocks.push_back({h.first, h.bytes, 0, {h.first, h.last}, {}});
  return blocks;
}

/// Largest first, each at the lowest offset where nothing lies that is alive at the same time.
size_t assign_offsets(std::vector<Block>& values, std::vector<Block>& workspaces, std::vector<Block>& held,
                      size_t alignment) {
  std::vector<Block*> blocks;
  for (auto* list : {&values, &workspaces, &held})
    for (Block& block : *list) blocks.push_back(&block);
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const Block* a, const Block* b) { return a->bytes > b->bytes; });
  std::vector<Piece> placed;  // by offset
  const auto place = [&](const Piece& piece) {
    placed.insert(std::upper_bound(placed.begin(), placed.end(), piece.offset,
                                   [](size_t offset, const Piece& p) { return offset < p.offset; }),
                  piece);
  };
  size_t end = 0;
  for (Block* const b : blocks) {
    Block& block = *b;
    size_t at = 0;
    for (const Piece& other : placed) {
      if (other.life.last < block.life.first || block.life.last < other.life.first) continue;
      if (at + block.bytes <= other.offset) break;
      at = std::max(at, round_up(other.offset + other.bytes, alignment));
    }
    block.offset = at;
    if (block.parts.empty()) place({block.life, block.bytes, at});
    for (const Piece& part : block.parts) place({part.life, part.bytes, at + part.offset});
    end = std::max(end, at + block.bytes);
  }
  return round_up(end, alignment);
}

/// After a node has updated a value in place, its old content is gone, also from views that were made before.
void check_updates(const Program& program) {
  std::vector<const OpDef*> updated(program.values().size(), nullptr);
  const auto check_read = [&](const std::string& reader, int id) {
    if (id < 0 || updated[static_cast<size_t>(id)] == nullptr) return;
    fail(ErrorCode::kInternal, "{}: reads value {}, which {} has updated in place: read what that gives",
         reader, id, updated[static_cast<size_t>(id)]->name);
  };
  std::vector<const Node*> views;  // so far
  for (const Node& node : program.nodes()) {
    for (const int id : node.in) check_read(node.op->name, id);
    if (node.op->aliasing != Aliasing::kNone) views.push_back(&node);
    if (node.op->in_place.empty()) continue;
    for (const InPlace& alias : node.op->in_place)
      updated[static_cast<size_t>(node.in[static_cast<size_t>(alias.in)])] = node.op;
    for (const Node* view : views)
      for (const int id : view->in)
        if (updated[static_cast<size_t>(id)] != nullptr) updated[static_cast<size_t>(view->out[0])] = node.op;
  }
  for (const auto& [name, id] : program.outputs()) check_read("output " + name, id);
}

}  // namespace

MemoryPlan plan_memory(const Program& program, const Selection& selection, size_t alignment, RowGap gap,
                       std::span<const Held> held) {
  check_updates(program);
  const std::vector<int64_t> ld = row_gaps(program, selection, gap);
  Roots roots(program);
  const std::vector<InUse> uses = uses_of(program, selection);
  overwrite(program, selection, uses, ld, roots);
  std::vector<Block> blocks = blocks_of(program, uses, roots, ld);
  std::vector<Block> workspaces = workspaces_of(program, selection, uses);
  std::vector<Block> others = blocks_of(held);
  MemoryPlan plan;
  plan.arena_bytes = assign_offsets(blocks, workspaces, others, alignment);
  plan.workspaces.resize(selection.size());
  for (const Block& block : workspaces) plan.workspaces[static_cast<size_t>(block.value)] = block.offset;
  std::vector<size_t> offset(program.values().size(), 0);
  for (const Block& block : blocks) offset[static_cast<size_t>(block.value)] = block.offset;
  for (size_t id = 0; id < program.values().size(); ++id) {
    const int root = roots.root(static_cast<int>(id));
    const bool state = program.values()[static_cast<size_t>(root)].kind == ValueKind::kState;
    plan.places.push_back(
        {state ? root : -1, offset[static_cast<size_t>(root)] + roots.offset(static_cast<int>(id)), ld[id]});
  }
  return plan;
}

MemoryPlan Backend::plan(const Program& program, const Selection& selection) const {
  return plan_memory(program, selection, info().alignment);
}

}  // namespace lathe
