// Gradients of programs made of real ops.
#include "lathe/program/autograd.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lathe/core/error.h"
#include "lathe/ops/elementwise.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/norms/layer_norm.h"
#include "lathe/ops/ops_of_testing.h"
#include "lathe/ops/optimizers/flat.h"

namespace lathe {
namespace {

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
  EXPECT_EQ(refusal([](Value x) {
              return x.program->emit(op::gelu_bwd, {x, x})[0];
            }),
            wants("gelu_bwd", "dy"));
  // neither of them on the way through others
  EXPECT_EQ(refusal([&](Value x) {
              const Value ids = x.program->input("ids", {DType::i32, {2}});
              const Value all = x.program->emit(op::concat, {linear_int8(gather_rows(x, ids), x, {})})[0];
              return slice(all, 0, {2});
            }),
            wants("linear_int8", "x"));
  // numbers that are no floats have none
  EXPECT_EQ(refusal([](Value x) { return gather_rows(x, x.program->input("ids", {DType::i32, {2}})); }), "");
  // the mean of a row is only for the backward pass
  EXPECT_EQ(
      refusal([](Value x) {
        return x.program->emit(op::layer_norm, {x, x.program->input("gamma", {DType::f32, {4}}), {}})[1];
      }),
      "layer_norm: gives no gradient through its output mean, which the loss depends on");
}

TEST(Autograd, TheGradientOfAWeightHasItsDtype) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Program p;
    const Value x = p.input("x", {DType::bf16, {4, 8}}), w = p.input("w", {dtype, {3, 8}});
    const Value loss = mean(cast(linear(x, w, {}), DType::f32)), seed = p.input("seed", {DType::f32, {1}});
    const std::vector<Value> grad = gradients(loss, seed, {x, w}, op::add);
    EXPECT_EQ(grad[0].type(), x.type());
    EXPECT_EQ(grad[1].type(), w.type());
  }
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
            "few: its rule gives 1 gradients, expected one for each of 2 inputs");
  static const OpDef other{.name = "other", .signature = "x[..] -> y[..]:x", .gradient = [](const Grad& g) {
                             return std::vector<Value>{mean(g.dout[0])};
                           }};
  EXPECT_EQ(refusal([](Value x) { return x.program->emit(other, {x})[0]; }, ErrorCode::kInternal),
            "other: its gradient of x is f32[1], expected f32[4, 4]");
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

}  // namespace
}  // namespace lathe
