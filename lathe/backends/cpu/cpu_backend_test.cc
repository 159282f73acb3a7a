#include "lathe/backends/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "lathe/core/float16.h"
#include "lathe/ops/all_reduce.h"
#include "lathe/ops/attention.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/linear.h"
#include "lathe/ops/optimizers/adafactor.h"
#include "lathe/ops/optimizers/flat.h"
#include "lathe/ops/optimizers/optimizer.h"
#include "lathe/ops/optimizers/sgd.h"
#include "lathe/program/memory_plan.h"

namespace lathe::cpu {
namespace {

/// Elements of f32 that begin `skew` bytes after a multiple of 64, between guards.
class Operand {
 public:
  Operand(int64_t count, size_t skew, float first) : count_(count), skew_(skew) {
    memory_.assign(static_cast<size_t>(count) * 4 + 256, kGuard);
    std::iota(begin(), begin() + count, first);
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(begin()); }
  float* begin() {
    const auto at = reinterpret_cast<uintptr_t>(memory_.data());
    return reinterpret_cast<float*>((at + 127) / 64 * 64 + skew_);
  }
  float operator[](int64_t i) { return begin()[i]; }
  bool guards_hold() {
    const auto inside = [&](const std::byte& b) { return &b >= data() && &b < data() + count_ * 4; };
    return std::ranges::all_of(memory_, [&](const std::byte& b) { return inside(b) || b == kGuard; });
  }

 private:
  static constexpr std::byte kGuard{0xa5};
  int64_t count_;
  size_t skew_;
  std::vector<std::byte> memory_;
};

constexpr int64_t kCount = 1003, kThird = 320;

TEST(RunNode, ReadsAndWritesWhereOperandsLie) {
  const auto backend = make_cpu_backend(2);
  Program program;
  const Type type{DType::f32, {kCount}};
  (void)add(program.input("a", type), program.input("b", type));
  const Node& node = program.nodes()[0];
  for (const Impl* impl : backend->implementations(*node.op))
    for (const size_t skew : {0, 4, 8, 60}) {  // MLX's arrays on Linux begin 8 bytes after a multiple of 16
      Operand a(kCount, skew, 1), b(kCount, 4, 1000), y(kCount, 8, -1);
      const std::vector<std::byte*> in{a.data(), b.data()}, out{y.data()};
      ASSERT_TRUE(backend->run_node(program, node, *impl, in, out, nullptr).ok()) << impl->name;
      for (int64_t i = 0; i < kCount; ++i)
        ASSERT_EQ(y[i], static_cast<float>(1001 + 2 * i)) << impl->name << ", element " << i;
      EXPECT_TRUE(a.guards_hold() && b.guards_hold() && y.guards_hold()) << impl->name;
      EXPECT_EQ(a[kCount - 1], static_cast<float>(kCount));
    }
}

TEST(RunNode, UpdatesInPlace) {
  const auto backend = make_cpu_backend(2);
  Program program;
  const Type type{DType::f32, {kCount}};
  const Value sum = program.input("sum", type), more = program.input("more", type),
              keep = program.input("keep", {DType::f32, {1}});
  (void)program.emit(op::accumulate, {sum, more, keep});
  const Node& node = program.nodes()[0];
  Operand total(kCount, 8, 0), part(kCount, 8, 5), factor(1, 8, 1);
  const std::vector<std::byte*> in{total.data(), part.data(), factor.data()}, out{total.data()};
  for (float runs = 1; runs <= 2; ++runs) {
    const Impl& impl = *backend->implementations(*node.op).front();
    ASSERT_TRUE(backend->run_node(program, node, impl, in, out, nullptr).ok());
    for (int64_t i = 0; i < kCount; ++i)
      ASSERT_EQ(total[i], static_cast<float>(i) + runs * static_cast<float>(5 + i)) << i;
  }
  EXPECT_TRUE(total.guards_hold());
}

TEST(RunNode, ALossThatIsNotFiniteKeepsAnOptimizerFromItsUpdate) {
  const auto backend = make_cpu_backend(2);
  const Attrs matrix{{"tensors", Shape{kCount, 1}}}, momentum{{"momentum", 0.9}};
  for (const OpDef* op : {&op::adamw, &op::sgd, &op::adafactor}) {
    const bool factored = op == &op::adafactor;
    std::vector<int64_t> sizes{kCount, kCount, factored ? kCount + 1 : kCount, 1, 1, kHyperCount};
    if (op == &op::adamw) sizes.insert(sizes.begin() + 3, kCount);
    const size_t norm = sizes.size() - 3, loss = norm + 1, hyper = norm + 2;
    Program program;
    std::vector<Value> values;
    for (const int64_t size : sizes)
      values.push_back(program.input("in" + std::to_string(values.size()), {DType::f32, {size}}));
    if (op == &op::adamw) values.emplace_back();  // no rounded gradients
    (void)program.emit(*op, values, factored ? matrix : op == &op::sgd ? momentum : Attrs{});
    const Node& node = program.nodes()[0];
    for (const Impl* impl : backend->implementations(*op))
      for (const float found : {1.f, INFINITY, NAN}) {
        std::vector<Operand> operands;
        for (const int64_t size : sizes) operands.emplace_back(size, 0, 1);
        operands[loss].begin()[0] = found;
        std::fill_n(operands[hyper].begin(), kHyperCount, 0.5f);
        std::vector<std::byte*> in, out;
        for (Operand& operand : operands) in.push_back(operand.data());
        if (op == &op::adamw) in.push_back(nullptr);
        for (size_t i = 0; i < norm; ++i)
          if (i != 1) out.push_back(in[i]);  // all but the gradients
        std::vector<std::byte> space(impl->workspace_bytes ? impl->workspace_bytes(node, program) + 64 : 64);
        ASSERT_TRUE(backend->run_node(program, node, *impl, in, out, space.data()).ok()) << impl->name;
        for (size_t i = 0; i < norm; ++i)
          EXPECT_EQ(operands[i][7] == 8, i == 1 || !std::isfinite(found)) << op->name << " " << i;
      }
  }
}

/// Gradients of a linear layer's weight, bias and input: [96,80], [96] and [70,80].
std::vector<std::vector<float>> gradients_of_linear(int threads, bool profiled) {
  const auto backend = make_cpu_backend(threads);
  Program program;
  const Value dy = program.input("dy", {DType::f32, {70, 96}}),
              x = program.input("x", {DType::f32, {70, 80}}), w = program.input("w", {DType::f32, {96, 80}});
  const auto of_weight = program.emit(op::linear_bwd_weight, {dy, x});
  program.output("dw", of_weight[0]);
  program.output("db", of_weight[1]);
  program.output("dx", program.emit(op::linear_bwd_input, {dy, w})[0]);
  std::vector<std::vector<float>> in{std::vector<float>(70 * 96), std::vector<float>(70 * 80),
                                     std::vector<float>(96 * 80)};
  float next = 0;
  for (auto& operand : in)
    for (float& element : operand) element = std::sin(next += 1);
  const Selection selection = select(program, *backend);
  const MemoryPlan plan = plan_memory(program, selection, 64);
  Bindings bindings{{}, backend->allocate(plan.arena_bytes).value()};
  const auto executable = backend->compile(program, selection, plan, bindings).value();
  executable->profile(profiled);
  Slot slot;
  for (const auto& operand : in) slot.inputs.push_back(std::as_bytes(std::span(operand)));
  Event event;
  EXPECT_TRUE(executable->run(slot, &event).ok());
  std::vector<std::vector<float>> out{std::vector<float>(96 * 80), std::vector<float>(96),
                                      std::vector<float>(70 * 80)};
  for (size_t o = 0; o < out.size(); ++o)
    EXPECT_TRUE(executable->read(event, o, std::as_writable_bytes(std::span(out[o]))).ok());
  EXPECT_EQ(
      std::ranges::count_if(executable->timeline(), [](const Span& s) { return s.end_ns > s.begin_ns; }),
      profiled ? 2 : 0);
  return out;
}

// With four or more threads both products run together, except in a profile; fewer threads share one
// workspace.
TEST(CpuExecutable, ThreadsDoBothGradientsOfALayerTogetherWithTheBitsOfEachAlone) {
  const auto alone = gradients_of_linear(1, true);
  for (const int threads : {1, 2, 4, 7})
    for (const bool profiled : {false, true})
      EXPECT_EQ(gradients_of_linear(threads, profiled), alone) << threads << " threads, " << profiled;
}

/// The norm of the rounded gradients of two layers, of a third one that a cast has rounded and of [3, 4]
/// size², together with those gradients, for inputs of some size.
std::pair<float, std::vector<bf16>> norm_of_rounded(Backend& backend, float size) {
  Program program;
  const auto input = [&](const char* name, const Shape& shape) {
    return program.input(name, {DType::bf16, shape});
  };
  const Value dy = input("dy", {70, 96}), x = input("x", {70, 64});
  const Value dz = input("dz", {70, 50}), z = input("z", {70, 32});
  const Value w = program.input("w", {DType::f32, {96, 64}});
  const Value one = program.emit(op::linear_bwd_weight_cast, {dy, x})[0];
  program.output("dx", program.emit(op::linear_bwd_input, {dy, w})[0]);
  const Value other = program.emit(op::linear_bwd_weight_cast, {dz, z})[0];
  const Value third = cast(program.input("third", {DType::f32, {kThird}}), DType::bf16);
  const Value rounded = program.emit(op::concat, {one, third, other})[0];
  const Value exact = program.input("exact", {DType::f32, {2}}),
              hyper = program.input("hyper", {DType::f32, {kHyperCount}});
  program.output("norm", program.emit(op::grad_norm, {exact, hyper, rounded})[0]);
  program.output("rounded", rounded);
  const Selection selection = select(program, backend);
  const MemoryPlan plan = plan_memory(program, selection, 64);
  const Bindings bindings{{}, backend.allocate(plan.arena_bytes).value()};
  const auto executable = backend.compile(program, selection, plan, bindings).value();
  std::vector<std::vector<bf16>> operands;
  float next = 0;
  for (const int64_t count : {70 * 96, 70 * 64, 70 * 50, 70 * 32}) {
    operands.emplace_back(static_cast<size_t>(count));
    for (bf16& element : operands.back()) element = to_bf16(size * std::sin(next += 1));
  }
  const std::vector<float> weights(96 * 64, 0.5f), thirds(kThird, 8 * size * size),
      fixed{3 * size * size, 4 * size * size}, hypers(kHyperCount, 1);
  Slot slot;
  for (const auto& operand : operands) slot.inputs.push_back(std::as_bytes(std::span(operand)));
  for (const auto& operand : {std::span(weights), std::span(thirds), std::span(fixed), std::span(hypers)})
    slot.inputs.push_back(std::as_bytes(operand));
  std::pair<float, std::vector<bf16>> found{0, std::vector<bf16>(96 * 64 + kThird + 50 * 32)};
  for (int run = 0; run < 2; ++run) {
    Event event;
    EXPECT_TRUE(executable->run(slot, &event).ok());
    EXPECT_TRUE(executable->read(event, 1, std::as_writable_bytes(std::span(&found.first, 1))).ok());
    EXPECT_TRUE(executable->read(event, 2, std::as_writable_bytes(std::span(found.second))).ok());
  }
  return found;
}

// Of squares that f32 does not hold, too.
TEST(CpuExecutable, HasTheNormOfRoundedGradientsWhateverTheThreads) {
  for (const float size : {1.f, 1e12f, 1e-15f}) {
    const auto [norm, gradients] = norm_of_rounded(*make_cpu_backend(1), size);
    double squares = std::pow(5.0 * size * size, 2);
    for (const bf16 g : gradients) squares += double{to_float(g)} * to_float(g);
    EXPECT_NEAR(norm, std::sqrt(squares), std::sqrt(squares) * 0x1p-22) << size;
    for (const int threads : {2, 4, 7})
      EXPECT_EQ(norm_of_rounded(*make_cpu_backend(threads), size).first, norm) << threads << " threads";
  }
}

TEST(CpuBackend, ThreadsOfTheCallerTakeTurns) {
  for (const int threads : {1, 2, 3}) {
    const auto backend = make_cpu_backend(threads);
    const float alone = norm_of_rounded(*backend, 1).first;
    const auto work = [&](std::byte filling) {
      std::vector<std::byte> there(size_t{3} << 20, filling), back(there.size());
      const Buffer buffer = backend->allocate(there.size()).value();
      for (int round = 0; round < 20; ++round) {
        EXPECT_EQ(norm_of_rounded(*backend, 1).first, alone);
        EXPECT_TRUE(backend->copy_in(buffer, 0, there).ok());
        EXPECT_TRUE(backend->copy_out(back, buffer, 0).ok());
        EXPECT_EQ(back, there);
      }
    };
    std::thread other(work, std::byte{1});  // not every libc++ has std::jthread
    work(std::byte{2});
    other.join();
  }
}

TEST(CpuBackend, ThreadsSeeNoHalfOfACopy) {
  const auto backend = make_cpu_backend(2);
  const size_t bytes = size_t{8} << 20;
  const Buffer buffer = backend->allocate(bytes).value();
  std::atomic<bool> done = false;
  std::thread other([&] {
    for (int round = 0; !done; ++round)
      EXPECT_TRUE(backend->copy_in(buffer, 0, std::vector<std::byte>(bytes, std::byte(round & 0xFF))).ok());
  });
  for (int round = 0; round < 50; ++round) {
    std::vector<std::byte> back(bytes);
    EXPECT_TRUE(backend->copy_out(back, buffer, 0).ok());
    EXPECT_EQ(std::count(back.begin(), back.end(), back[0]), static_cast<std::ptrdiff_t>(bytes)) << round;
  }
  done = true;
  other.join();
}

// The attention of a model has memory for as many tokens as the model has positions.
TEST(CpuExecutable, RefusesRowsThatAttentionHasNoMemoryFor) {
  const auto backend = make_cpu_backend(1);
  Program program;
  const Value qkv = program.input("qkv", {DType::f32, {40, 24}}), cu = program.input("cu", {DType::i32, {3}});
  const Value ids = program.input("ids", {DType::i32, {2}}), rng = program.input("rng", {DType::i32, {2}});
  program.output("y", program.emit(op::attention, {qkv, cu, ids, rng}, {{"longest", int64_t{32}}})[0]);
  const Selection selection = select(program, *backend);
  const MemoryPlan plan = plan_memory(program, selection, 64);
  const Bindings bindings{{}, backend->allocate(plan.arena_bytes).value()};
  auto executable = backend->compile(program, selection, plan, bindings);
  ASSERT_TRUE(executable.ok());
  const std::vector<float> values(40 * 24);
  const std::vector<int32_t> zeros(2);
  const auto run = [&](std::vector<int32_t> begins) {
    Slot slot;
    for (const auto bytes :
         {std::as_bytes(std::span(values)), std::as_bytes(std::span<const int32_t>(begins)),
          std::as_bytes(std::span(zeros)), std::as_bytes(std::span(zeros))})
      slot.inputs.emplace_back(bytes.data(), bytes.size());
    Event event;
    const Status status = executable.value()->run(slot, &event);
    return status.ok() ? std::string() : status.message();
  };
  EXPECT_EQ(run({0, 8, 40}), "");
  EXPECT_EQ(run({0, 7, 40}), "attention: row 1 has 33 tokens, expected at most 32");
}

TEST(RunNode, RefusesViews) {
  const auto backend = make_cpu_backend(1);
  Program program;
  (void)slice(program.input("x", {DType::f32, {kCount}}), 3, {5});
  const Node& node = program.nodes()[0];
  const Impl& view = *backend->implementations(*node.op).front();
  EXPECT_EQ(backend->run_node(program, node, view, {}, {}, nullptr).code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace lathe::cpu
