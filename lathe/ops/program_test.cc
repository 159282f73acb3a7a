// The program and its passes, on programs made of real ops.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "lathe/core/error.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/ops.h"
#include "lathe/program/autograd.h"
#include "lathe/program/backend.h"
#include "lathe/program/hoist.h"

namespace lathe {
namespace {

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kShape);
    return error.what();
  }
  return "";
}

TEST(Program, ShapeErrorNamesOpInputFoundAndWanted) {
  Program p;
  const Value x = p.input("x", {DType::f32, {4, 8}}), w = p.input("w", {DType::f32, {3, 7}});
  EXPECT_EQ(message_of([&] { linear(x, w, {}); }), "linear: w has k = 7, but k was bound to 8");
  const Value half = p.input("half", {DType::bf16, {3, 8}});
  EXPECT_EQ(message_of([&] { linear(x, half, {}); }), "linear: w is bf16[3, 8], wants f32");
  EXPECT_EQ(message_of([&] { add(x, w); }),
            "add: b has leading dimensions [3, 7], the inputs before have [4, 8]");
}

TEST(Program, WhatIsNoSizeOfATensorIsNamed) {
  Program p;
  const auto input = [&](const Shape& shape) {
    return message_of([&] { p.input("x", {DType::f32, shape}); });
  };
  EXPECT_EQ(input({-1, 4}), "x: f32[-1, 4] is no size of a tensor");
  constexpr int64_t kHalf = int64_t{1} << 62;
  EXPECT_EQ(input({kHalf + 1, 4}), "x: f32[4611686018427387905, 4] is no size of a tensor");
  EXPECT_NE(message_of([&] { p.state("s", {DType::f32, {kHalf}}); }), "");
  const Value tall = p.input("tall", {DType::f32, {int64_t{1} << 32, 1}});
  const Value wide = p.input("wide", {DType::f32, {int64_t{1} << 32, 1}});
  EXPECT_EQ(message_of([&] { linear(tall, wide, {}); }),
            "linear: f32[4294967296, 4294967296] is no size of a tensor");
  EXPECT_EQ(message_of([&] { gelu(p.input("no rows", {DType::f32, {0, 4}})); }), "");
}

TEST(Program, RowsOfNoElementsAreRefused) {
  Program p;
  const Value x = p.input("x", {DType::f32, {2, 0}}), none = p.input("none", {DType::f32, {0}});
  const Value y = p.input("y", {DType::f32, {2, 4}}), w = p.input("w", {DType::f32, {0, 4}});
  EXPECT_EQ(message_of([&] {
              linear(x, p.input("u", {DType::f32, {3, 0}}), {});
            }),
            "linear: x is f32[2, 0], wants rows of at least one element");
  EXPECT_EQ(message_of([&] { linear(y, w, {}); }),
            "linear: y is f32[2, 0], wants rows of at least one element");
  EXPECT_EQ(message_of([&] { layer_norm(none, none, {}, 1e-5); }),
            "layer_norm: x is f32[0], wants rows of at least one element");
  EXPECT_EQ(message_of([&] { geglu(x); }), "geglu: x is f32[2, 0], wants rows of at least one element");
  // no tokens, which are columns of the second output
  EXPECT_EQ(message_of([&] {
              p.emit(op::attention,
                     {p.input("qkv", {DType::f32, {0, 24}}), p.input("cu", {DType::i32, {1}}),
                      p.input("row_ids", {DType::i32, {0}}), p.input("rng", {DType::i32, {2}})},
                     {{"heads", int64_t{2}}});
            }),
            "");
}

TEST(Program, AValueThatIsNotGivenIsNamed) {
  Program p;
  const Value x = p.input("x", {DType::f32, {4}});
  EXPECT_EQ(message_of([&] { relu(Value{}); }), "relu: no input is given");
  EXPECT_EQ(message_of([&] { add(Value{}, x); }), "add: a is not given");
  EXPECT_EQ(message_of([&] { cast(Value{}, DType::bf16); }),
            "no value is given where one with a type is wanted");
  EXPECT_EQ(message_of([&] { p.emit(op::slice, {Value{}}); }), "slice: x is not given");
  EXPECT_EQ(message_of([&] { p.emit(op::concat, {x, Value{}}); }), "concat: x is not given");
}

TEST(Program, ASliceLiesWithinItsTensor) {
  Program p;
  const Value x = p.input("x", {DType::f32, {4}});
  const auto cut = [&](int64_t offset, const Shape& shape) {
    return message_of([&] { slice(x, offset, shape); });
  };
  EXPECT_EQ(cut(0, {2, 2}), "");
  EXPECT_EQ(cut(3, {2}), "slice: [2] from 3 on does not lie in f32[4]");
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(cut(kMost - 1, {4}), "slice: [4] from 9223372036854775806 on does not lie in f32[4]");
  for (const int64_t offset : {int64_t{-1}, kMost}) EXPECT_NE(cut(offset, {1}), "") << offset;
  for (const Shape& shape : {Shape{-2, -2}, {-1}, {int64_t{1} << 62, 4}, {4, int64_t{1} << 62, 0, 4}})
    EXPECT_NE(cut(0, shape), "") << to_string(shape);
  EXPECT_EQ(message_of([&] {
              slice(p.input("y", {DType::f32, {2, 2}}), 0, {4});
            }),
            "slice: x is f32[2, 2], wants x[n]");
}

TEST(Program, AttentionWantsWholeHeads) {
  Program p;
  const auto input = [&](const char* name, const Shape& shape, DType dtype = DType::f32) {
    return p.input(name, {dtype, shape});
  };
  const Value cu = input("cu", {3}, DType::i32), ids = input("ids", {2}, DType::i32),
              rng = input("rng", {2}, DType::i32);
  const Value x = input("x", {5, 8}), w = input("w", {24, 8}), b = input("b", {24});
  const Value qkv = linear(x, w, b);
  for (const int64_t heads : {3, 0, -1, 16}) {
    const auto wants = [&](const char* op) {
      return fmt::format("{}: found 8 columns and {} heads, wants a multiple of the heads", op, heads);
    };
    const Attrs attrs{{"heads", heads}};
    EXPECT_EQ(message_of([&] { p.emit(op::attention, {qkv, cu, ids, rng}, attrs); }), wants("attention"));
    EXPECT_EQ(message_of([&] {
                p.emit(op::first_attention, {x, w, b, cu, ids, rng}, attrs);
              }),
              wants("first_attention"));
  }
  EXPECT_EQ(message_of([&] { p.emit(op::attention, {qkv, cu, ids, rng}, {{"heads", int64_t{4}}}); }), "");
}

TEST(Program, OnlyItsOwnValuesAreOutputs) {
  Program p, other;
  const auto error_of = [&](Value value) {
    try {
      p.output("y", value);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_of(other.input("x", {DType::f32, {1}})), "output y: the value belongs to another program");
  EXPECT_EQ(error_of({}), "output y: no value is given");
  EXPECT_EQ(error_of(p.input("x", {DType::f32, {1}})), "");
}

TEST(Program, DumpsOneLinePerNode) {
  Program p;
  const Value x = p.input("x", {DType::f32, {2, 3}});
  p.output("y", scale(relu(x), 0.5));
  EXPECT_EQ(
      p.dump(),
      "input x f32[2, 3]\n%1 f32[2, 3] = relu(x)\n%2 f32[2, 3] = scale(%1) factor=0.5\noutput y = %2\n");
}

TEST(Program, DeadNodesGoAndUpdatesOfStatesStay) {
  Program p;
  const Value x = p.input("x", {DType::f32, {4}}), keep = p.input("keep", {DType::f32, {1}});
  const Value total = p.state("total", {DType::f32, {4}});
  relu(x);  // nobody reads it
  p.emit(op::accumulate, {total, x, keep});
  p.remove_dead_nodes();
  ASSERT_EQ(p.nodes().size(), 1u);
  EXPECT_STREQ(p.nodes()[0].op->name, "accumulate");
}

TEST(Program, ReadIsWhatANodeOrTheHostReads) {
  Program p;
  const Value x = p.input("x", {DType::f32, {4}}), gamma = p.input("gamma", {DType::f32, {4}});
  const Value half = p.input("half", {DType::bf16, {2, 4}});
  const std::vector<Value> out = p.emit(op::layer_norm, {relu(x), gamma, {}});
  p.output("y", out[0]);
  const std::vector<bool> read = p.read();
  const auto is_read = [&](Value v) { return static_cast<bool>(read[static_cast<size_t>(v.id)]); };
  EXPECT_TRUE(is_read(x) && is_read(gamma) && is_read(out[0]));
  EXPECT_FALSE(is_read(half) || is_read(out[1]) || is_read(out[2]));
}

TEST(Autograd, SumsTheGradientsOfAValueUsedTwiceAndLeavesTheRestAlone) {
  Program p;
  const Value x = p.input("x", {DType::f32, {4}}), other = p.input("other", {DType::f32, {4}});
  const Value seed = p.input("seed", {DType::f32, {1}});
  const Value loss = mean(add(relu(x), add(x, relu(other))));
  const size_t forward = p.nodes().size();
  const Value dx = gradients(loss, seed, {x}, op::add)[0];
  EXPECT_EQ(dx.type(), x.type());
  // mean_bwd, relu_bwd of x and the sum: nothing for `other`
  EXPECT_EQ(p.nodes().size() - forward, 3u);
  EXPECT_THROW(gradients(loss, seed, {seed}, op::add), Error);
}

/// Why there are no gradients of mean(y) + mean(x) with regard to x, empty if there are some.
std::string refusal(const std::function<Value(Value x)>& y, ErrorCode code = ErrorCode::kUnsupported) {
  Program p;
  const Value x = p.input("x", {DType::f32, {4, 4}}), seed = p.input("seed", {DType::f32, {1}});
  const Value loss = add(mean(x), mean(y(x)));  // part of the gradient is there
  try {
    gradients(loss, seed, {x}, op::add);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "";
}

TEST(Autograd, AGradientThatNoRuleGivesIsAnErrorAndNotLeftOut) {
  const auto wants = [](const char* op, const char* input) {
    return fmt::format("{}: gives no gradient of {}, which depends on what is trained", op, input);
  };
  EXPECT_EQ(refusal([](Value x) { return linear_int8(x, x, {}); }), wants("linear_int8", "x"));
  EXPECT_EQ(refusal([](Value x) { return x.program->emit(op::concat, {x, x})[0]; }), wants("concat", "x"));
  EXPECT_EQ(refusal([](Value x) {
              return x.program->emit(op::gelu_bwd, {x, x})[0];
            }),
            wants("gelu_bwd", "dy"));
  EXPECT_EQ(refusal([&](Value x) {
              const Value ids = x.program->input("ids", {DType::i32, {2}});
              return slice(x.program->emit(op::concat, {gather_rows(x, ids)})[0], 0, {2});
            }),
            wants("slice", "x"));
  // numbers that are no floats have none
  EXPECT_EQ(refusal([](Value x) { return gather_rows(x, x.program->input("ids", {DType::i32, {2}})); }), "");
  // the mean of a row serves the backward pass alone
  EXPECT_EQ(
      refusal([](Value x) {
        return x.program->emit(op::layer_norm, {x, x.program->input("gamma", {DType::f32, {4}}), {}})[1];
      }),
      "layer_norm: gives no gradient through its output mean, which the loss depends on");
}

TEST(Autograd, GradientsFlowInThroughAllOutputsButAuxiliaryOnes) {
  static const OpDef twice{
      .name = "twice", .signature = "x[..] -> y[..]:x z[..]:x", .gradient = [](const Grad& g) {
        return std::vector<Value>{add(g.dout[0], g.dout[1])};
      }};
  EXPECT_EQ(refusal([](Value x) {
              const std::vector<Value> both = x.program->emit(twice, {x});
              return add(both[0], both[1]);
            }),
            "");
}

TEST(Autograd, ARuleGivesAGradientOfTheRightTypePerInput) {
  static const OpDef none{.name = "none", .signature = "x[..] -> y[..]:x"};
  EXPECT_EQ(refusal([](Value x) { return x.program->emit(none, {x})[0]; }),
            "none: gives no gradient of x, which depends on what is trained");
  static const OpDef few{.name = "few",
                         .signature = "a[..] b[..]:a -> y[..]:a",
                         .gradient = [](const Grad& g) { return std::vector<Value>{g.dout[0]}; }};
  EXPECT_EQ(refusal(
                [](Value x) {
                  return x.program->emit(few, {x, x})[0];
                },
                ErrorCode::kInternal),
            "few: its rule gives 1 gradients, wants one for each of 2 inputs");
  static const OpDef other{.name = "other", .signature = "x[..] -> y[..]:x", .gradient = [](const Grad& g) {
                             return std::vector<Value>{mean(g.dout[0])};
                           }};
  EXPECT_EQ(refusal([](Value x) { return x.program->emit(other, {x})[0]; }, ErrorCode::kInternal),
            "other: its gradient of x is f32[1], wants f32[4, 4]");
}

/// Ops by name, in the order of nodes.
std::string ops_of(const Program& p) {
  std::string names;
  for (const Node& node : p.nodes()) names += (names.empty() ? "" : " ") + std::string(node.op->name);
  return names;
}

TEST(Autograd, AValueOfASegmentIsComputedOnceMoreAndWhatFlowsOutOfItIsKept) {
  Program p;
  const Value x = p.input("x", {DType::f32, {4}}), seed = p.input("seed", {DType::f32, {1}});
  Value y = gelu(x);
  for (int layer = 0; layer < 2; ++layer) {
    const SegmentScope scope(p);
    y = gelu(tanh(gelu(y)));
  }
  const Value loss = mean(y);
  const size_t forward = p.nodes().size();
  p.output("dx", gradients(loss, seed, {x}, op::add)[0]);
  p.remove_dead_nodes();
  EXPECT_EQ(ops_of(p),
            "gelu gelu tanh gelu gelu tanh gelu "
            "mean_bwd gelu tanh gelu_bwd tanh_bwd gelu_bwd "
            "gelu tanh gelu_bwd tanh_bwd gelu_bwd gelu_bwd");
  // The backward pass reads x, the outputs of the first gelu and of both segments, nothing within them.
  for (size_t n = forward - 1; n < p.nodes().size(); ++n)
    for (const int id : p.nodes()[n].in) {
      const int producer = p.values()[static_cast<size_t>(id)].producer;
      EXPECT_FALSE(producer == 1 || producer == 2 || producer == 4 || producer == 5) << p.dump();
    }
}

TEST(Autograd, ASegmentThatNoGradientFlowsThroughIsNotComputedAgain) {
  Program p;
  const Value x = p.input("x", {DType::f32, {4}}), w = p.input("w", {DType::f32, {4}});
  Value y = x;
  {
    const SegmentScope scope(p);
    EXPECT_THROW(SegmentScope{p}, Error);
    y = tanh(gelu(y));
  }
  const Value product = p.emit(op::mul, {y, w})[0];
  p.output("dw", gradients(mean(product), p.input("seed", {DType::f32, {1}}), {w}, op::add)[0]);
  p.remove_dead_nodes();
  EXPECT_EQ(ops_of(p), "gelu tanh mul mean_bwd mul");
}

/// Bytes [begin, end) of the arena that a value occupies, and the nodes between which it lives.
struct Occupied {
  size_t begin, end;
  int first, last;
};

/// The last node beside which node n still runs, if every `late`-th has late outputs (0: none has).
int runs_until(int n, int nodes, int late) {
  if (late == 0 || n % late != 0) return n;
  return n + 2 * late < nodes ? n + 2 * late - 1 : nodes;
}

/// `over`: what outputs may lie over; such values may meet in the node that reads one and writes the other.
void expect_no_overlap(int late, Late kind = Late::kNode, const std::vector<InPlace>& over = {}) {
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
  tardy.late_outputs = 1;
  tardy.late = kind;
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
        if (in == static_cast<int>(id))
          o.last = std::max(o.last, kind == Late::kNode ? runs_until(n, nodes, late) : n);
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

TEST(MemoryPlan, WhatANodeWithLateOutputsTouchesStaysUntilTheSecondBehindIt) {
  for (const int late : {2, 3, 5}) expect_no_overlap(late);
}

TEST(MemoryPlan, WhatEndsLateKeepsItsWorkspaceAndGivesInputsFree) {
  for (const int late : {2, 3, 5}) expect_no_overlap(late, Late::kEnd);
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
    impl.apart = static_cast<size_t>(512 * steps);
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

TEST(MemoryPlan, OneKindOfLateNodesDoesNotWaitForAnother) {
  const auto gives_free = [](Late other) {  // whether something lies where x was
    Program p;
    const Value x = p.input("x", {DType::f32, {64}});
    Value y = x;
    for (int i = 0; i < 6; ++i) y = relu(y);
    p.output("y", y);
    Impl prompt, node, end;
    node.late_outputs = end.late_outputs = 1;
    end.late = other;
    const MemoryPlan plan = plan_memory(p, {&node, &end, &end, &prompt, &prompt, &prompt}, 64);
    const auto place = [&](size_t id) { return plan.places[id].offset; };
    for (size_t id = 0; id < p.values().size(); ++id)
      if (static_cast<int>(id) != x.id && place(id) == place(static_cast<size_t>(x.id))) return true;
    return false;
  };
  EXPECT_TRUE(gives_free(Late::kNode));
  EXPECT_FALSE(gives_free(Late::kEnd));
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
  message.own_queue = true;
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

TEST(MemoryPlan, ANodeWithItsOwnQueueKeepsItsPlaceToTheEnd) {
  Program p;
  const Value x = p.input("x", {DType::f32, {100}});
  const Value sum = p.emit(op::all_reduce, {relu(x)})[0];
  Value y = relu(sum);  // reads it at once: from here on nobody needs it
  std::vector<Value> later;
  for (int i = 0; i < 4; ++i) later.push_back(y = relu(y));
  p.output("y", y);
  Impl prompt, message;
  message.own_queue = true;
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
  late.late_outputs = 1;
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

TEST(MemoryPlan, ValuesThatLieOverOthersMeetNothingElse) { expect_no_overlap(0, Late::kNode, {{0, 0}}); }

/// Rows of 16 elements of two bytes, which `gap` wants 8 bytes further apart.
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

TEST(Program, EveryOpSaysHowManyInputsItWants) {
  for (const OpDef* op : all_ops()) {
    Program p;
    EXPECT_NE(message_of([&] { p.emit(*op, {}); }).find("0 inputs given, wants"), std::string::npos)
        << op->name;
  }
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

TEST(MemoryPlan, WhatANodeHoldsLivesToItsLastReader) {
  Program p;
  Value y = p.input("x", {DType::f32, {64}});
  for (int i = 0; i < 7; ++i) y = relu(y);
  p.output("y", y);
  Impl plain, holding, working;
  holding.holds = [](const Node&, const Program&) { return Held{4096, 4}; };
  working.workspace_bytes = [](const Node&, const Program&) { return size_t{4096}; };
  const auto arena = [&](size_t works) {
    Selection selection(p.nodes().size(), &plain);
    selection[1] = &holding;
    if (works > 0) selection[works] = &working;
    return plan_memory(p, selection, 64).arena_bytes;
  };
  const size_t values = plan_memory(p, Selection(p.nodes().size(), &plain), 64).arena_bytes;
  EXPECT_EQ(arena(0), values + 4096);
  EXPECT_EQ(arena(5), values + 4096);  // behind the last reader its place is free
  EXPECT_EQ(arena(4), values + 8192);
}

/// The ops of a program, in order.
std::string order_of(const Program& p) {
  std::string text;
  for (const Node& node : p.nodes()) text += (text.empty() ? "" : " ") + std::string(node.op->name);
  return text;
}

TEST(Hoist, NodesMoveBehindTheLastThatTheyDependOnWithTheirViews) {
  Program p;
  const Value x = p.input("x", {DType::f32, {8}});
  const Value a = relu(x), b = tanh(a), c = gelu(b), d = tanh(c);
  const Value ab = p.emit(op::all_reduce, p.emit(op::concat, {a, b}))[0];
  const Value cd = p.emit(op::all_reduce, p.emit(op::concat, {c, d}))[0];
  p.output("y", p.emit(op::concat, {ab, cd})[0]);
  hoist(p, op::all_reduce);
  EXPECT_EQ(order_of(p), "relu tanh concat all_reduce gelu tanh concat all_reduce concat");
}

TEST(Hoist, TheirOwnOrderStays) {
  Program p;
  const Value x = p.input("x", {DType::f32, {8}});
  const Value a = relu(x), b = tanh(a);
  const Value second = p.emit(op::all_reduce, {b})[0], first = p.emit(op::all_reduce, {a})[0];
  const Value c = gelu(x), sums = add(first, second);
  p.output("y", add(c, sums));
  hoist(p, op::all_reduce);
  EXPECT_EQ(order_of(p), "relu tanh all_reduce all_reduce gelu add add");
  EXPECT_EQ(p.nodes()[2].in[0], b.id);
}

}  // namespace
}  // namespace lathe
