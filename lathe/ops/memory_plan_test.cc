// Where the values of programs made of real ops lie.
#include "lathe/program/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "lathe/core/error.h"
#include "lathe/ops/all_reduce.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/optimizers/flat.h"
#include "lathe/program/backend.h"

namespace lathe {
namespace {

/// Bytes [begin, end) of the arena that a value occupies, and the nodes between which it lives.
struct Occupied {
  size_t begin, end;
  int first, last;
};

/// The last node during which node n may still run, if every `late`-th has late outputs (0: none has).
int runs_until(int n, int nodes, int late) {
  if (late == 0 || n % late != 0) return n;
  return n + 2 * late < nodes ? n + 2 * late - 1 : nodes;
}

/// inputs: those of late nodes are in use as long.  over: what outputs may lie over; such values may meet in
/// the node that reads one and writes the other.
void expect_no_overlap(int late, bool inputs = true, const std::vector<InPlace>& over = {}) {
  Program p;
  Value x = p.input("x", {DType::f32, {10, 20}});
  std::vector<Value> kept;
  for (int i = 0; i < 12; ++i) {
    x = i % 3 == 0 ? add(x, x) : relu(x);
    if (i % 4 == 0) kept.push_back(x);
  }
  for (const Value& v : kept) x = add(x, v);
  p.output("y", x);
  Impl prompt, tardy;
  prompt.workspace_bytes = tardy.workspace_bytes = [](const Node&, const Program&) { return size_t{96}; };
  tardy.in_use = [=](int node, const Program& program, const Selection&) {
    return InUse{node, runs_until(node, static_cast<int>(program.nodes().size()), late), inputs};
  };
  prompt.may_overwrite = over;
  const int nodes = static_cast<int>(p.nodes().size());
  Selection selection;
  for (int n = 0; n < nodes; ++n) selection.push_back(late != 0 && n % late == 0 ? &tardy : &prompt);
  const MemoryPlan plan = plan_memory(p, selection, 64);
  std::vector<Occupied> all;
  for (size_t id = 0; id < p.values().size(); ++id) {
    const size_t begin = plan.places[id].offset;
    EXPECT_EQ(begin % 64, 0u);
    Occupied o{begin, begin + bytes_of(p.values()[id].type), std::max(0, p.values()[id].producer), 0};
    if (p.values()[id].producer >= 0) o.last = runs_until(o.first, nodes, late);
    for (int n = 0; n < nodes; ++n)
      for (int in : p.nodes()[static_cast<size_t>(n)].in)
        if (in == static_cast<int>(id)) o.last = std::max(o.last, inputs ? runs_until(n, nodes, late) : n);
    if (p.outputs()[0].second == static_cast<int>(id)) o.last = static_cast<int>(p.nodes().size());
    all.push_back(o);
  }
  for (int n = 0; n < nodes; ++n) {
    const size_t begin = plan.workspaces[static_cast<size_t>(n)];
    all.push_back({begin, begin + 96, n, runs_until(n, nodes, late)});
  }
  for (const Occupied& o : all) EXPECT_LE(o.end, plan.arena_bytes);
  for (size_t a = 0; a < all.size(); ++a)
    for (size_t b = 0; b < a; ++b) {
      const bool in_turn = !over.empty() && (all[a].first == all[b].last || all[b].first == all[a].last) &&
                           all[a].begin == all[b].begin && all[a].end == all[b].end;
      const bool together = all[a].first <= all[b].last && all[b].first <= all[a].last && !in_turn;
      const bool overlap = all[a].begin < all[b].end && all[b].begin < all[a].end;
      EXPECT_FALSE(together && overlap) << a << " and " << b;
    }
  EXPECT_LT(plan.arena_bytes, 800 * p.values().size());  // memory is used again
}

TEST(MemoryPlan, ValuesThatLiveAtTheSameTimeNeverOverlap) { expect_no_overlap(0); }

TEST(MemoryPlan, WhatANodeTouchesStaysAsLongAsItSays) {
  for (const int late : {2, 3, 5}) expect_no_overlap(late);
}

TEST(MemoryPlan, InputsMayBeFreeBeforeTheWorkspace) {
  for (const int late : {2, 3, 5}) expect_no_overlap(late, false);
}

/// A chain of 256 bytes a value, in which each node reads and writes 512.
TEST(MemoryPlan, WhatLiesApartTakesNoMemoryThatWasJustInUse) {
  for (const int steps : {0, 1, 3, 20}) {
    Program p;
    Value x = p.input("x", {DType::f32, {64}});
    std::vector<Value> values;
    for (int i = 0; i < 12; ++i) values.push_back(x = relu(x));
    p.output("y", x);
    Impl impl;
    impl.workspace_bytes = [](const Node&, const Program&) { return size_t{256}; };
    impl.in_use = [=](int node, const Program&, const Selection&) {
      return InUse{std::max(0, node - steps), node};
    };
    const MemoryPlan plan = plan_memory(p, Selection(p.nodes().size(), &impl), 64);
    std::vector<std::pair<size_t, int>> used;  // a place, and the last node that reads what is there
    int again = 0;
    for (int n = 0; n < 12; ++n) {
      const size_t output = plan.places[static_cast<size_t>(values[static_cast<size_t>(n)].id)].offset;
      const size_t workspace = plan.workspaces[static_cast<size_t>(n)];
      for (const auto& [place, last] : used) {
        if (place != output && place != workspace) continue;
        ++again;
        EXPECT_GT(n - last, steps) << n;
      }
      used.emplace_back(output, n + 1);
      used.emplace_back(workspace, n);
    }
    EXPECT_EQ(again > 0, steps < 12) << steps;
  }
}

InUse to_the_end(int node, const Program& program, const Selection&) {
  return {node, static_cast<int>(program.nodes().size())};
}

TEST(MemoryPlan, OnlyTheOutputsThatAreNamedStay) {
  for (const uint32_t kept : {0b01u, 0b10u}) {
    Program p;
    const Type type{DType::f32, {4, 64}}, one{DType::f32, {64}};
    const Value x = p.input("x", type), r = p.input("r", type);
    const std::vector<Value> out = p.emit(op::add_layer_norm, {x, r, p.input("gamma", one), Value{}});
    Value y = add(out[0], out[1]);
    std::vector<Value> later;
    for (int i = 0; i < 4; ++i) later.push_back(y = relu(y));
    p.output("y", add(add(y, x), r));
    const Impl plain;
    Impl late;
    late.in_use = [=](int node, const Program& program, const Selection& selection) {
      InUse use = to_the_end(node, program, selection);
      use.inputs = false, use.outputs = kept;
      return use;
    };
    Selection selection(p.nodes().size(), &plain);
    selection[0] = &late;
    const MemoryPlan plan = plan_memory(p, selection, 64);
    const auto at = [&](Value v) { return plan.places[static_cast<size_t>(v.id)].offset; };
    const auto used_again = [&](Value v) {
      return std::ranges::any_of(later, [&](Value other) { return at(other) == at(v); });
    };
    EXPECT_EQ(used_again(out[0]), kept == 0b10u);
    EXPECT_EQ(used_again(out[1]), kept == 0b01u);
  }
}

TEST(MemoryPlan, ViewsAndUpdatesLieInTheirStateAndPartsInTheirWhole) {
  Program p;
  const Value flat = p.state("flat", {DType::f32, {100}}), keep = p.input("keep", {DType::f32, {1}});
  const Value part = slice(flat, 40, {5, 4});
  const Value a = relu(part), b = relu(slice(flat, 0, {10}));
  const Value whole = p.emit(op::concat, {a, b})[0];
  const Value gradient = p.state("gradient", {DType::f32, {30}});
  const Value sum = p.emit(op::accumulate, {gradient, whole, keep})[0];
  const Impl impl;
  const MemoryPlan plan = plan_memory(p, Selection(p.nodes().size(), &impl), 64);
  const auto place = [&](Value v) { return plan.places[static_cast<size_t>(v.id)]; };
  EXPECT_EQ(place(part).state, flat.id);
  EXPECT_EQ(place(part).offset, 160u);
  EXPECT_EQ(place(sum).state, gradient.id);
  EXPECT_EQ(place(a).offset, place(whole).offset);
  EXPECT_EQ(place(b).offset, place(whole).offset + 80);
}

TEST(MemoryPlan, InputsFromTheStartOutputsToTheEndAndWholesBetweenKeepTheirPlace) {
  Program p;
  const Type type{DType::f32, {64}};
  const Value x = p.input("x", type), late = p.input("late", type), early = relu(x);
  p.output("early", early);
  const Value whole = p.emit(op::concat, {relu(early), tanh(early)})[0];
  std::vector<Value> meanwhile{relu(x)};
  for (int i = 0; i < 4; ++i) meanwhile.push_back(relu(meanwhile.back()));
  p.output("y", add(meanwhile.back(), late));
  p.output("z", relu(whole));
  const Impl impl;
  const MemoryPlan plan = plan_memory(p, Selection(p.nodes().size(), &impl), 64);
  const auto begin = [&](Value v) { return plan.places[static_cast<size_t>(v.id)].offset; };
  const auto end = [&](Value v) { return begin(v) + bytes_of(v.type()); };
  for (const Value kept : {late, early, whole})
    for (const Value v : meanwhile)
      EXPECT_TRUE(end(v) <= begin(kept) || end(kept) <= begin(v)) << kept.id << " and " << v.id;
}

/// Two gradients of a flat whole, computed one after the other, and an activation that is needed until the
/// second: it lies where the second will be.
TEST(MemoryPlan, APartGivesRoomUntilItIsWritten) {
  Program p;
  const Value x = p.input("x", {DType::f32, {64}});
  const Value early = relu(x), kept = add(early, x);
  const Value first = relu(early), second = relu(kept);
  const Value whole = p.emit(op::concat, {second, first})[0];
  p.output("y", add(whole, whole));
  const Impl impl;
  const MemoryPlan plan = plan_memory(p, Selection(p.nodes().size(), &impl), 64);
  const auto begin = [&](Value v) { return plan.places[static_cast<size_t>(v.id)].offset; };
  EXPECT_EQ(begin(second), begin(whole));
  EXPECT_EQ(begin(first), begin(whole) + 256);
  EXPECT_EQ(begin(x), begin(second));  // dead when `second` is written
  for (const Value other : {x, early, kept}) EXPECT_NE(begin(other), begin(first));
  EXPECT_NE(begin(kept), begin(second));
}

TEST(MemoryPlan, PartsThatWereUpdatedInPlaceLieInTheirWholeToo) {
  Program p;
  const Value x = p.input("x", {DType::f32, {8}}), late = p.input("late", {DType::f32, {4}});
  const Value a = relu(x), b = relu(slice(x, 0, {3}));
  const Value first = p.emit(op::all_reduce, p.emit(op::concat, {a, b}))[0];
  const Value second = p.emit(op::all_reduce, p.emit(op::concat, {late}))[0];
  const Value whole = p.emit(op::concat, {first, second})[0];
  p.output("y", relu(whole));
  Impl prompt, message;
  message.in_use = to_the_end;
  Selection selection;
  for (const Node& node : p.nodes()) selection.push_back(node.op == &op::all_reduce ? &message : &prompt);
  const MemoryPlan plan = plan_memory(p, selection, 64);
  const auto offset = [&](Value v) { return plan.places[static_cast<size_t>(v.id)].offset; };
  EXPECT_EQ(offset(a), offset(whole));
  EXPECT_EQ(offset(b), offset(whole) + 32);
  EXPECT_EQ(offset(first), offset(whole));
  EXPECT_EQ(offset(late), offset(whole) + 44);
  EXPECT_EQ(offset(second), offset(whole) + 44);
}

TEST(MemoryPlan, WhatIsInUseToTheEndKeepsItsPlace) {
  Program p;
  const Value x = p.input("x", {DType::f32, {100}});
  const Value sum = p.emit(op::all_reduce, {relu(x)})[0];
  Value y = relu(sum);  // reads it at once: from here on nothing needs it
  std::vector<Value> later;
  for (int i = 0; i < 4; ++i) later.push_back(y = relu(y));
  p.output("y", y);
  Impl prompt, message;
  message.in_use = to_the_end;
  Selection selection;
  for (const Node& node : p.nodes()) selection.push_back(node.op == &op::all_reduce ? &message : &prompt);
  const MemoryPlan plan = plan_memory(p, selection, 64);
  for (const Value& v : later)
    EXPECT_NE(plan.places[static_cast<size_t>(v.id)].offset, plan.places[static_cast<size_t>(sum.id)].offset);
}

TEST(MemoryPlan, AnOutputLiesOverAnInputThatNothingReadsAnyMore) {
  Program p;
  const Value x = p.input("x", {DType::f32, {64}});
  const Value a = relu(x), b = relu(a), c = relu(b), kept = relu(c), d = relu(kept);
  const Value e = add(d, d), part = slice(e, 0, {32}), f = relu(e), g = relu(part);
  const Value h = add(f, kept), i = relu(h);
  p.output("g", g);
  p.output("h", h);
  p.output("i", i);
  Impl impl;
  impl.may_overwrite = {{0, 0}};
  const MemoryPlan plan = plan_memory(p, Selection(p.nodes().size(), &impl), 64);
  const auto at = [&](Value v) { return plan.places[static_cast<size_t>(v.id)].offset; };
  EXPECT_NE(at(a), at(x));  // the host has written it
  EXPECT_EQ(at(b), at(a));
  EXPECT_EQ(at(c), at(a));
  EXPECT_EQ(at(kept), at(a));
  EXPECT_NE(at(d), at(kept));  // read again by h
  EXPECT_NE(at(e), at(d));     // both inputs of one node
  EXPECT_NE(at(f), at(e));     // a part of it is still wanted
  EXPECT_EQ(at(h), at(f));
  EXPECT_NE(at(i), at(h));  // an output of the program
  Impl late = impl;
  late.in_use = to_the_end;
  const MemoryPlan beside = plan_memory(p, Selection(p.nodes().size(), &late), 64);
  EXPECT_NE(beside.places[static_cast<size_t>(b.id)].offset, beside.places[static_cast<size_t>(a.id)].offset);
}

TEST(MemoryPlan, AnOutputThatNothingReadsLeavesTheInputToTheNext) {
  for (const bool sum_is_read : {false, true}) {
    Program p;
    const Type type{DType::f32, {4, 64}}, one{DType::f32, {64}};
    const Value x = relu(p.input("x", type)), r = p.input("r", type);
    const std::vector<Value> out = p.emit(op::add_layer_norm, {x, r, p.input("gamma", one), Value{}});
    p.output("y", relu(out[1]));
    if (sum_is_read) p.output("sum", relu(out[0]));
    const Impl plain;
    Impl norm;
    norm.may_overwrite = {{0, 0}, {1, 0}};
    Selection selection(p.nodes().size(), &plain);
    selection[1] = &norm;
    const MemoryPlan plan = plan_memory(p, selection, 64);
    const auto at = [&](Value v) { return plan.places[static_cast<size_t>(v.id)].offset; };
    EXPECT_EQ(at(out[0]) == at(x), sum_is_read);
    EXPECT_EQ(at(out[1]) == at(x), !sum_is_read);
    EXPECT_NE(at(out[0]), at(out[1]));
  }
}

TEST(MemoryPlan, ValuesThatLieOverOthersMeetNothingElse) { expect_no_overlap(0, true, {{0, 0}}); }

/// Rows of 16 elements of two bytes, which `gap` places 8 bytes further apart.
struct Gaps {
  static constexpr RowGap gap{32, 8};
  Program p;
  Impl takes, dense;
  Gaps() { takes.gaps_in = 0b11, takes.gaps_out = 0b1, takes.may_overwrite = {{0, 0}}; }
  Value two_bytes(const char* input, Shape shape = {4, 16}) {
    return cast(p.input(input, {DType::f32, std::move(shape)}), DType::bf16);
  }
  void read(const char* output, Value x) { p.output(output, cast(x, DType::f32)); }
  MemoryPlan plan(const std::vector<size_t>& dense_nodes = {}) {
    Selection selection(p.nodes().size(), &takes);
    for (const size_t n : dense_nodes) selection[n] = &dense;
    return plan_memory(p, selection, 64, gap);
  }
  static int64_t ld(const MemoryPlan& plan, Value v) { return plan.places[static_cast<size_t>(v.id)].ld; }
};

TEST(MemoryPlan, AMatrixHasGapsWhereAllThatTouchesItTakesThem) {
  Gaps g;
  const Value a = g.two_bytes("x"), b = relu(a), c = relu(b);
  g.read("y", c);
  const MemoryPlan all = g.plan(), some = g.plan({3});
  for (const Value v : {a, b, c}) {
    EXPECT_EQ(g.ld(all, v), 20);
    EXPECT_EQ(g.ld(some, v), 0) << "what reads c does not, and nodes know one distance";
  }
  const MemoryPlan none = plan_memory(g.p, Selection(g.p.nodes().size(), &g.takes), 64);
  EXPECT_EQ(g.ld(none, a), 0);
}

TEST(MemoryPlan, WhatTheHostSeesHasNoGaps) {
  Gaps g;
  const Value x = g.p.input("x", {DType::bf16, {4, 16}}), a = relu(x);
  g.read("y", relu(a));
  const Value b = g.two_bytes("z"), c = relu(b);
  g.p.output("c", c);
  for (const Value v : {x, a, b, c}) EXPECT_EQ(g.ld(g.plan(), v), 0);
}

TEST(MemoryPlan, OnlyMatricesOfTwoBytesWhoseRowsAskForThemHaveGaps) {
  for (const Shape& shape : {Shape{4, 17}, {2, 2, 16}, {64}}) {
    Gaps g;
    const Value a = g.two_bytes("x", shape);
    const Value wide = cast(g.p.input("narrow", {DType::bf16, {4, 16}}), DType::f32);
    g.read("y", relu(a));
    g.p.output("z", cast(wide, DType::bf16));
    EXPECT_EQ(g.ld(g.plan(), a), 0) << to_string(shape);
    EXPECT_EQ(g.ld(g.plan(), wide), 0);
  }
}

TEST(MemoryPlan, MatricesThatMeetNowhereDecideForThemselves) {
  Gaps g;
  const Value far = g.two_bytes("z", {4, 32}), a = g.two_bytes("x");
  g.read("a", a);
  g.read("far", far);
  const MemoryPlan plan = g.plan({0});  // that which writes `far`
  EXPECT_EQ(g.ld(plan, far), 0);
  EXPECT_EQ(g.ld(plan, a), 20);
}

TEST(MemoryPlan, WhatHasGapsTakesTheirRoomAndLiesOverItsInput) {
  Gaps g;
  const Value a = g.two_bytes("x"), b = relu(a), c = add(a, b), d = relu(c);
  g.read("y", d);
  const MemoryPlan plan = g.plan();
  const auto at = [&](Value v) { return plan.places[static_cast<size_t>(v.id)].offset; };
  constexpr size_t kBytes = 4 * 20 * 2;
  EXPECT_TRUE(at(a) + kBytes <= at(b) || at(b) + kBytes <= at(a)) << at(a) << " and " << at(b);
  EXPECT_EQ(at(c), at(a));
  EXPECT_EQ(at(d), at(a));
  for (const Value v : {a, b}) EXPECT_LE(at(v) + kBytes, plan.arena_bytes);
}

TEST(MemoryPlan, WhatWasUpdatedInPlaceIsNotReadAnyMore) {
  const Impl impl;
  const auto refusal = [&](const std::function<void(Program&, Value old, Value updated)>& read) {
    Program p;
    const Value g = p.input("g", {DType::f32, {4}}), keep = p.input("keep", {DType::f32, {1}});
    const Value old = p.state("total", {DType::f32, {4}});
    read(p, old, p.emit(op::accumulate, {old, g, keep})[0]);
    try {
      plan_memory(p, Selection(p.nodes().size(), &impl), 64);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string why = ": reads value 2, which accumulate has updated in place: read what that gives";
  EXPECT_EQ(refusal([](Program&, Value old, Value) { relu(old); }), "relu" + why);
  EXPECT_EQ(refusal([](Program& p, Value old, Value) { p.output("y", old); }), "output y" + why);
  EXPECT_EQ(refusal([](Program& p, Value old, Value updated) {
              p.emit(op::accumulate, {old, updated, p.input("k", {DType::f32, {1}})});
            }),
            "accumulate" + why);
  EXPECT_EQ(refusal([](Program& p, Value, Value updated) { p.output("y", relu(updated)); }), "");
}

TEST(MemoryPlan, AViewOfWhatWasUpdatedInPlaceIsNotReadAnyMore) {
  const Impl impl;
  Program p;
  const Value g = p.input("g", {DType::f32, {4}}), keep = p.input("keep", {DType::f32, {1}});
  const Value total = p.state("total", {DType::f32, {4}}), half = slice(total, 0, {2});
  relu(half);  // still there
  EXPECT_NO_THROW(plan_memory(p, Selection(p.nodes().size(), &impl), 64));
  p.emit(op::accumulate, {total, g, keep});
  EXPECT_NO_THROW(plan_memory(p, Selection(p.nodes().size(), &impl), 64));
  relu(half);
  EXPECT_THROW(plan_memory(p, Selection(p.nodes().size(), &impl), 64), Error);
}

TEST(MemoryPlan, WhatIsHeldLivesToItsLastReader) {
  Program p;
  Value y = p.input("x", {DType::f32, {64}});
  for (int i = 0; i < 7; ++i) y = relu(y);
  p.output("y", y);
  Impl plain, working;
  working.workspace_bytes = [](const Node&, const Program&) { return size_t{4096}; };
  const auto arena = [&](size_t works) {
    Selection selection(p.nodes().size(), &plain);
    if (works > 0) selection[works] = &working;
    const Held held{4096, 1, 4};
    return plan_memory(p, selection, 64, {}, std::span(&held, 1)).arena_bytes;
  };
  const size_t values = plan_memory(p, Selection(p.nodes().size(), &plain), 64).arena_bytes;
  EXPECT_EQ(arena(0), values + 4096);
  EXPECT_EQ(arena(5), values + 4096);  // after the last reader its place is free
  EXPECT_EQ(arena(4), values + 8192);
}

}  // namespace
}  // namespace lathe
