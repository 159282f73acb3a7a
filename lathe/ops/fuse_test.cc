// Fused ops: what they replace, where they are used and where not.
#include "lathe/program/fuse.h"

#include <gtest/gtest.h>

#include "lathe/core/error.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/elementwise.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/linear.h"
#include "lathe/ops/ops.h"
#include "lathe/ops/ops_of_testing.h"
#include "lathe/ops/optimizers/flat.h"
#include "lathe/program/autograd.h"

namespace lathe {
namespace {

/// A device that has an implementation of every op but one, or of nodes it accepts; it runs nothing.
class Device : public Backend {
 public:
  const OpDef* lacks = nullptr;
  Impl impl;

  const DeviceInfo& info() const override { return info_; }
  Result<Buffer> allocate(size_t) override { return Status(ErrorCode::kMemory, "none"); }
  Status copy_in(const Buffer&, size_t, std::span<const std::byte>) override { return {}; }
  Status copy_out(std::span<std::byte>, const Buffer&, size_t) override { return {}; }
  std::vector<const Impl*> implementations(const OpDef& op) const override {
    if (&op == lacks) return {};
    return {&impl};
  }
  Result<std::unique_ptr<Executable>> compile(const Program&, const Selection&, const MemoryPlan&,
                                              const Bindings&) override {
    return Status(ErrorCode::kUnsupported, "runs nothing");
  }

 private:
  DeviceInfo info_;
};

std::string fused(Program& p, const Device& device = {}) {
  fuse(p, device, fusions());
  return ops_of(p);
}

/// A residual block, without its last step: what every test below varies.
struct Block {
  Program p;
  Value x = p.input("x", {DType::f32, {4, 8}}), r = p.input("r", {DType::f32, {4, 8}});
  Value ids = p.input("ids", {DType::i32, {4}}), rng = p.input("rng", {DType::i32, {2}});
  Value gamma = p.state("gamma", {DType::f32, {8}}), beta = p.state("beta", {DType::f32, {8}});
  Value keep = p.input("keep", {DType::f32, {1}});

  Value dropped(Value from) { return p.emit(op::dropout, {from, ids, {}, rng}, {{"p", 0.5}})[0]; }
};

TEST(Fuse, AResidualBlockAndItsBackwardPassBecomeFour) {
  Block b;
  const Value w = b.p.state("w", {DType::f32, {8, 8}});
  const Value y = layer_norm(add(b.dropped(linear(b.x, w, {})), b.x), b.gamma, b.beta, 1e-5);
  const auto d = gradients(mean(y), b.p.input("seed", {DType::f32, {1}}), {b.x, w}, op::add);
  b.p.output("dx", d[0]);
  b.p.output("dw", d[1]);
  b.p.remove_dead_nodes();
  fuse(b.p, Device(), fusions());
  EXPECT_EQ(b.p.dump(),
            "input x f32[4, 8]\ninput r f32[4, 8]\ninput ids i32[4]\ninput rng i32[2]\nstate gamma f32[8]\n"
            "state beta f32[8]\ninput keep f32[1]\nstate w f32[8, 8]\ninput seed f32[1]\n"
            "%8 f32[4, 8] = linear(x, w, -)\n"
            "%10 f32[4, 8], %11 f32[4, 8], %12 f32[4], %13 f32[4] = "
            "dropout_add_layer_norm(%8, x, ids, -, rng, gamma, beta) eps=1e-05 p=0.5 site=0\n"
            "%16 f32[4, 8] = mean_bwd(seed, %11)\n"
            "%17 f32[4, 8], %18 f32[8], %19 f32[8], %20 f32[4, 8] = "
            "layer_norm_dropout_bwd(%16, %10, gamma, %12, %13, ids, -, rng) p=0.5 site=0\n"
            "%21 f32[8, 8], %22 f32[8] = linear_bwd_weight(%20, x)\n"
            "%24 f32[4, 8] = linear_bwd_input_add(%20, w, %17)\n"
            "output dx = %24\noutput dw = %21\n");
}

TEST(Fuse, OperandsOfACommutativeOpMayChangePlaces) {
  for (const bool swapped : {false, true}) {
    Block b;
    const Value d = b.dropped(b.x);
    b.p.output("y", layer_norm(swapped ? add(b.r, d) : add(d, b.r), b.gamma, b.beta, 1e-5));
    EXPECT_EQ(fused(b.p), "dropout_add_layer_norm");
    EXPECT_EQ(b.p.nodes()[0].in,
              (std::vector<int>{b.x.id, b.r.id, b.ids.id, -1, b.rng.id, b.gamma.id, b.beta.id}));
  }
}

TEST(Fuse, WhatFewerPartsMakeUpIsTakenWhereMoreCannotBe) {
  Block b;
  const Value d = b.dropped(b.x);
  b.p.output("d", d);  // so it must be there
  b.p.output("y", layer_norm(add(d, b.r), b.gamma, b.beta, 1e-5));
  EXPECT_EQ(fused(b.p), "dropout add_layer_norm");
  Block c;
  c.p.output("y", layer_norm(add(c.dropped(c.x), c.r), c.gamma, c.beta, 1e-5));
  Device device;
  device.lacks = &op::dropout_add_layer_norm;
  EXPECT_EQ(fused(c.p, device), "dropout add_layer_norm");
}

TEST(Fuse, TheBackendMayRefuseANode) {
  Block b;
  b.p.output("y", layer_norm(add(b.x, b.r), b.gamma, b.beta, 1e-5));
  Device device;
  device.impl.accepts = [](const Node& node, const Program& p) {
    EXPECT_EQ(p.type(node.out[0]).shape, (Shape{4, 8}));
    return node.attrs.f("eps") > 1e-4;
  };
  EXPECT_EQ(fused(b.p, device), "add layer_norm");
}

TEST(Fuse, AValueThatOthersReadStaysAndSoDoesOneReadTooEarly) {
  Block inner;  // the dropped rows are no output of the fused op
  const Value d = inner.dropped(inner.x);
  inner.p.output("y", layer_norm(add(d, inner.r), inner.gamma, inner.beta, 1e-5));
  inner.p.output("z", relu(d));
  EXPECT_EQ(fused(inner.p), "dropout add_layer_norm relu");
  Block early;  // the sum is, but relu reads it before the normalisation
  Value sum = add(early.x, early.r);
  early.p.output("z", relu(sum));
  early.p.output("y", layer_norm(sum, early.gamma, early.beta, 1e-5));
  EXPECT_EQ(fused(early.p), "add relu layer_norm");
  Block late;
  sum = add(late.x, late.r);
  late.p.output("sum", sum);
  late.p.output("y", layer_norm(sum, late.gamma, late.beta, 1e-5));
  late.p.output("z", relu(sum));
  EXPECT_EQ(fused(late.p), "add_layer_norm relu");
}

TEST(Fuse, AnInputThatIsAlsoComputedWithinIsNoInput) {
  Block b;
  const Value w = b.p.input("w", {DType::f32, {8, 8}});
  const Value t = b.p.emit(op::linear_bwd_input, {b.x, w})[0];
  b.p.output("y", add(t, t));
  EXPECT_EQ(fused(b.p), "linear_bwd_input add");
}

TEST(Fuse, OneNodeIsNotTwoParts) {
  Program p;
  const Value table = p.input("table", {DType::f32, {5, 8}}), ids = p.input("ids", {DType::i32, {4}});
  const Value gamma = p.input("gamma", {DType::f32, {8}});
  const Value w = look_up(table, ids), t = look_up(table, ids);
  p.output("y", layer_norm(add(add(w, w), t), gamma, gamma, 1e-5));
  EXPECT_EQ(fused(p), "look_up look_up add add_layer_norm");
}

TEST(Fuse, AnUpdateInPlaceBetweenThePartsForbidsIt) {
  for (const bool between : {false, true}) {
    Block b;
    if (!between) b.p.emit(op::accumulate, {b.gamma, b.beta, b.keep});
    const Value sum = add(b.x, b.r);
    if (between) b.p.emit(op::accumulate, {b.gamma, b.beta, b.keep});
    b.p.output("y", layer_norm(sum, b.gamma, b.beta, 1e-5));
    EXPECT_EQ(fused(b.p), between ? "add accumulate layer_norm" : "accumulate add_layer_norm");
  }
}

TEST(Fuse, PartsOfDifferentSegmentsStayApart) {
  for (const bool together : {false, true}) {
    Block b;
    std::optional<SegmentScope> scope(b.p);
    const Value sum = add(b.x, b.r);
    if (!together) scope.reset();
    b.p.output("y", layer_norm(sum, b.gamma, b.beta, 1e-5));
    EXPECT_EQ(fused(b.p), together ? "add_layer_norm" : "add layer_norm");
    EXPECT_EQ(b.p.nodes()[0].segment, 0);
  }
}

TEST(Fuse, ANodeBelongsToOneFusedOpAlone) {
  Block b;  // two normalisations of one sum: the first takes it
  const Value sum = add(b.x, b.r);
  b.p.output("y", layer_norm(sum, b.gamma, b.beta, 1e-5));
  b.p.output("z", layer_norm(sum, b.gamma, b.beta, 1e-3));
  EXPECT_EQ(fused(b.p), "add_layer_norm layer_norm");
}

TEST(Fuse, WhatASignatureDoesNotAdmitStaysApart) {
  Program p;  // embed_layer_norm takes tables of one dtype
  const auto table = [&](const char* name) {
    return p.input(name, {name[0] == 'c' ? DType::f32 : DType::bf16, {5, 8}});
  };
  const Value ids = p.input("ids", {DType::i32, {4}}), gamma = p.input("gamma", {DType::f32, {8}});
  const Value a = look_up(table("a"), ids), b = look_up(table("b"), ids);
  const Value c = look_up(table("c"), ids);
  p.output("y", layer_norm(add(add(a, b), c), gamma, gamma, 1e-5));
  EXPECT_EQ(fused(p), "look_up look_up look_up add add_layer_norm");
}

TEST(Fuse, ALossOverAVocabularyAndItsGradientsAreOneNode) {
  Program p;
  const Value x = p.input("x", {DType::bf16, {6, 8}}), w = p.input("w", {DType::f32, {20, 8}});
  const Value labels = p.input("labels", {DType::i32, {6}}), seed = p.input("seed", {DType::f32, {1}});
  const auto [loss, correct] = linear_cross_entropy(x, w, {}, labels, 0.1);
  p.output("loss", loss);
  p.output("correct", correct);
  for (const Value gradient : gradients(loss, seed, {x, w}, op::add))
    p.output("d" + std::to_string(gradient.id), gradient);
  p.remove_dead_nodes();
  EXPECT_EQ(ops_of(p), "linear_cross_entropy linear_cross_entropy_bwd");
  EXPECT_EQ(fused(p), "linear_cross_entropy_with_bwd");
}

TEST(Fuse, ALossThatIsReadBeforeItsGradientsStaysApart) {
  Program p;
  const Value x = p.input("x", {DType::bf16, {6, 8}}), w = p.input("w", {DType::bf16, {20, 8}});
  const Value labels = p.input("labels", {DType::i32, {6}}), seed = p.input("seed", {DType::f32, {1}});
  const Value half = scale(linear_cross_entropy(x, w, {}, labels).loss, 0.5);
  p.output("loss", half);
  p.output("dx", gradients(half, seed, {x}, op::add)[0]);
  p.remove_dead_nodes();
  EXPECT_EQ(fused(p), "linear_cross_entropy scale scale linear_cross_entropy_bwd");
}

TEST(Fuse, AutogradComesBefore) {
  Block b;
  const Value y = b.p.emit(op::add_layer_norm, {b.x, b.r, b.gamma, b.beta})[1];
  const Value seed = b.p.input("seed", {DType::f32, {1}});
  EXPECT_THROW(gradients(mean(y), seed, {b.x}, op::add), Error);
}

/// Each of the op's dtypes, and once more with inputs alike.
std::vector<std::pair<DType, bool>> dtypes_of(const OpDef& op) {
  std::vector<std::pair<DType, bool>> all;
  for (const DType dtype : op.dtypes) all.insert(all.end(), {{dtype, false}, {dtype, true}});
  return all;
}

/// The dtype of an input; alike: those that may be f32 or have the dtype of another have that.
DType dtype_of(const InputRule& rule, DType dtype, bool alike) {
  return rule.fixed_dtype && !(alike && !rule.or_that_of.empty()) ? rule.dtype : dtype;
}

/// Every case of every fused op, as a program of that one node.
void for_each_case(const std::function<void(const Fusion&, Program&)>& f) {
  for (const Fusion& fusion : fusions())
    for (const Case& c : fusion.op->cases())
      for (const auto& [dtype, alike] : dtypes_of(*fusion.op)) {
        Program p;
        std::vector<Value> in;
        const std::vector<InputRule> rules = input_rules(*fusion.op);
        for (size_t i = 0; i < rules.size(); ++i)
          in.push_back(c.in[i] == Shape{-1}
                           ? Value{}
                           : p.input(rules[i].name, {dtype_of(rules[i], dtype, alike), c.in[i]}));
        size_t number = 0;
        for (const Value out : p.emit(*fusion.op, in, c.attrs))
          p.output("out" + std::to_string(number++), out);
        SCOPED_TRACE(p.dump());
        f(fusion, p);
      }
}

TEST(Decompose, GivesPartsOfTheSameTypesThatFuseToTheSameNode) {
  for_each_case([](const Fusion& fusion, Program& p) {
    const std::string before = p.dump();
    decompose(p, fusions());
    ASSERT_EQ(p.nodes().size(), fusion.parts.size());
    for (const Node& node : p.nodes()) {
      EXPECT_EQ(node.op->fuses, nullptr);
      std::vector<Type> in, out;
      for (const int id : node.in) in.push_back(id < 0 ? Type{DType::f32, {-1}} : p.type(id));
      for (const int id : node.out) out.push_back(p.type(id));
      EXPECT_EQ(infer_types(*node.op, in, node.attrs), out) << node.op->name;
    }
    fuse(p, Device(), fusions());
    EXPECT_EQ(p.dump(), before);
  });
}

TEST(Fusion, CostsTheOperationsOfItsPartsAndReadsWhatComesFromOutside) {
  Program p;
  const Value x = p.input("x", {DType::bf16, {10, 16}}), gamma = p.input("gamma", {DType::f32, {16}});
  p.emit(op::add_layer_norm, {x, x, gamma, gamma});
  const Cost cost = op::add_layer_norm.cost(p.nodes()[0], p);
  EXPECT_EQ(cost.flops, 9 * 160);
  EXPECT_EQ(cost.bytes, 4 * 320 + 2 * 64 + 2 * 40);
}

/// y = a · b · x
const char* kTwice = "t = scale(x) factor:a; y = scale(t) factor:b";
OpDef twice(const char* fuses, Attrs attrs = {{"a", 1.0}, {"b", 1.0}}) {
  return {.name = "twice", .signature = "x[..] -> y[..]:x", .attrs = std::move(attrs), .fuses = fuses};
}

TEST(Fusion, AttributesOfTheSameNameAreGivenOthers) {
  const OpDef op = twice(kTwice);
  const std::vector<Fusion> list{take_apart(op, find_op)};
  Program p;
  p.output("y", scale(scale(p.input("x", {DType::f32, {4}}), 2), 3));
  const std::string before = p.dump();
  fuse(p, Device(), list);
  EXPECT_EQ(p.dump(), "input x f32[4]\n%2 f32[4] = twice(x) a=2 b=3\noutput y = %2\n");
  decompose(p, list);
  EXPECT_EQ(p.nodes()[0].attrs.f("factor"), 2);
  EXPECT_EQ(p.nodes()[1].attrs.f("factor"), 3);
}

TEST(Fusion, ATextThatDoesNotFitIsRefused) {
  const auto message = [](const OpDef& op) -> std::string {
    try {
      take_apart(op, find_op);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInternal);
      return error.what();
    }
    return "";
  };
  const std::string begin = "twice: its parts do not fit: ";
  EXPECT_EQ(message(twice(kTwice)), "");
  EXPECT_EQ(message(twice("t = scale(x) factor:a; y = scale(u) factor:b")), begin + "u is not given");
  EXPECT_EQ(message(twice("x = scale(x) factor:a; y = scale(x) factor:b")), begin + "x is given twice");
  EXPECT_EQ(message(twice("t = scale(x) factor:a; u = scale(t) factor:b")), begin + "y is not given");
  EXPECT_EQ(message(twice("t = scale(x) factor:a; y = scale(x) factor:b")),
            begin + "scale feeds no later part");
  EXPECT_EQ(message(twice("t = scale(x) factor:a; y = scale(t) factor:a")),
            begin + "the attribute a is that of scale, too");
  EXPECT_EQ(message(twice("t = scale(x) factor:a; y = scale(t)")),
            begin + "it has no attribute factor, as scale has");
  EXPECT_EQ(message(twice("t = scale(x) speed:a; y = scale(t) factor:b")),
            begin + "scale has no attribute for speed:a");
  EXPECT_EQ(message(twice("t = scale(x) factor:a; y = relu(t)")),
            begin + "expected two parts at least and an attribute of one of them for each of its own");
  EXPECT_EQ(message(twice("y = add(x)")), begin + "'y = add(x)' calls a[..] b[..]:a -> y[..]:a");
  EXPECT_EQ(message(twice("y = accumulate(x)")),
            begin + "'y = accumulate(x)' calls no plain op that computes");
  EXPECT_EQ(message(twice("y scale x")), begin + "found 'y scale x', expected y = op(x)");
}

}  // namespace
}  // namespace lathe
