// Programs made of real ops.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "lathe/core/error.h"
#include "lathe/ops/attention.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/norms/layer_norm.h"
#include "lathe/ops/ops.h"
#include "lathe/ops/optimizers/flat.h"

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

TEST(Program, ShapeErrorNamesOpInputFoundAndExpected) {
  Program p;
  const Value x = p.input("x", {DType::f32, {4, 8}}), w = p.input("w", {DType::f32, {3, 7}});
  EXPECT_EQ(message_of([&] { linear(x, w, {}); }), "linear: w has k = 7, but k was bound to 8");
  const Value half = p.input("half", {DType::bf16, {3, 8}});
  EXPECT_EQ(message_of([&] { linear(x, half, {}); }),
            "linear: w is bf16[3, 8], expected f32 or the dtype of x");
  EXPECT_EQ(message_of([&] { add(x, w); }),
            "add: b has leading dimensions [3, 7], the inputs before have [4, 8]");
}

TEST(Program, AnInputMayHaveAnothersDtypeInsteadOfItsOwn) {
  Program p;
  const Value x = p.input("x", {DType::bf16, {2, 4}}), labels = p.input("labels", {DType::i32, {2}});
  const auto loss = [&](const char* name, DType dtype) {
    return linear_cross_entropy(x, p.input(name, {dtype, {3, 4}}), {}, labels);
  };
  EXPECT_TRUE(loss("own", DType::f32).loss);
  EXPECT_TRUE(loss("that of x", DType::bf16).loss);
  EXPECT_EQ(message_of([&] { loss("other", DType::f16); }),
            "linear_cross_entropy: w is f16[3, 4], expected f32 or the dtype of x");
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
            "linear: x is f32[2, 0], expected rows of at least one element");
  EXPECT_EQ(message_of([&] { linear(y, w, {}); }),
            "linear: y is f32[2, 0], expected rows of at least one element");
  EXPECT_EQ(message_of([&] { layer_norm(none, none, {}, 1e-5); }),
            "layer_norm: x is f32[0], expected rows of at least one element");
  EXPECT_EQ(message_of([&] {
              linear_cross_entropy(y, w, {}, p.input("labels", {DType::i32, {2}}));
            }),
            "linear_cross_entropy: w is f32[0, 4], expected at least one class");
  EXPECT_EQ(message_of([&] { gated(x, "gelu"); }),
            "gated: x is f32[2, 0], expected rows of at least one element");
  // no tokens, which are columns of the second output
  EXPECT_EQ(message_of([&] {
              p.emit(op::attention,
                     {p.input("qkv", {DType::f32, {0, 24}}), p.input("cu", {DType::i32, {1}}),
                      p.input("row_ids", {DType::i32, {0}}), p.input("rng", {DType::i32, {2}})},
                     {{"heads", int64_t{2}}});
            }),
            "");
}

TEST(Program, ADimensionThatTheSignatureFixesIsNamed) {
  const auto attend = [](int64_t columns, int64_t random, int64_t heads_found) {
    Program p;
    const Value qkv = p.input("qkv", {DType::f32, {5, columns}}), cu = p.input("cu", {DType::i32, {3}}),
                ids = p.input("ids", {DType::i32, {2}}), rng = p.input("rng", {DType::i32, {random}}),
                y = p.input("y", {DType::f32, {5, 8}}), lse = p.input("lse", {DType::f32, {heads_found, 5}});
    return message_of([&] {
      p.emit(op::attention_bwd, {y, qkv, y, lse, cu, ids, rng}, {{"heads", int64_t{2}}});
    });
  };
  EXPECT_EQ(attend(25, 2, 2), "attention_bwd: qkv has 25 columns, expected a multiple of 6: 2 + 2 · 2 heads");
  EXPECT_EQ(attend(36, 2, 2), "attention_bwd: dy has 8 columns, expected 12: 2 heads of 6");
  EXPECT_EQ(attend(24, 3, 2), "attention_bwd: rng has 3, expected 2");
  EXPECT_EQ(attend(24, 2, 4), "attention_bwd: lse has 4, expected heads = 2");
}

TEST(Program, AValueThatIsNotGivenIsNamed) {
  Program p;
  const Value x = p.input("x", {DType::f32, {4}});
  EXPECT_EQ(message_of([&] { relu(Value{}); }), "relu: no input is given");
  EXPECT_EQ(message_of([&] { add(Value{}, x); }), "add: a is not given");
  EXPECT_EQ(message_of([&] { cast(Value{}, DType::bf16); }), "found no value, expected one with a type");
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
            "slice: x is f32[2, 2], expected x[n]");
}

TEST(Program, AttentionNeedsWholeHeads) {
  Program p;
  const auto input = [&](const char* name, const Shape& shape, DType dtype = DType::f32) {
    return p.input(name, {dtype, shape});
  };
  const Value cu = input("cu", {3}, DType::i32), ids = input("ids", {2}, DType::i32),
              rng = input("rng", {2}, DType::i32);
  const Value qkv = input("qkv", {5, 24});
  const auto attend = [&](int64_t heads, int64_t kv_heads) {
    return message_of([&] {
      p.emit(op::attention, {qkv, cu, ids, rng}, {{"heads", heads}, {"kv_heads", kv_heads}});
    });
  };
  for (const int64_t heads : {3, 16})
    EXPECT_EQ(attend(heads, 0),
              fmt::format("attention: qkv has 24 columns, expected a multiple of {0}: {1} + 2 "
                          "· {1} heads",
                          3 * heads, heads));
  for (const int64_t heads : {0, -1})
    EXPECT_EQ(attend(heads, 0), fmt::format("attention: found {0} heads of q and {0} of k and v, expected a "
                                            "multiple of the latter",
                                            heads));
  EXPECT_EQ(attend(4, 3),
            "attention: found 4 heads of q and 3 of k and v, expected a multiple of the latter");
  EXPECT_EQ(attend(6, 2), "attention: qkv has 24 columns, expected a multiple of 10: 6 + 2 · 2 heads");
  for (const auto& [heads, kv_heads] : {std::pair<int64_t, int64_t>{4, 0}, {4, 2}, {4, 4}, {6, 3}, {1, 1}})
    EXPECT_EQ(attend(heads, kv_heads), "") << heads << " of " << kv_heads;
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
  relu(x);  // nothing reads it
  p.emit(op::accumulate, {total, x, keep});
  p.emit(op::accumulate, {slice(p.state("other", {DType::f32, {8}}), 4, {4}), x, keep});
  p.emit(op::accumulate, {relu(x), x, keep});  // of no state
  p.remove_dead_nodes();
  std::string names;
  for (const Node& node : p.nodes()) names += std::string(node.op->name) + " ";
  EXPECT_EQ(names, "accumulate slice accumulate ");
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

TEST(Program, EveryOpSaysHowManyInputsItNeeds) {
  for (const OpDef* op : all_ops()) {
    Program p;
    EXPECT_NE(message_of([&] { p.emit(*op, {}); }).find("0 inputs given, expected"), std::string::npos)
        << op->name;
  }
}

}  // namespace
}  // namespace lathe
