#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "lathe/backends/cpu/cpu_backend.h"
#include "lathe/core/float16.h"
#include "lathe/ops/elementwise.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/ops.h"
#include "lathe/program/autograd.h"
#include "lathe/program/fuse.h"

namespace lathe::cpu {
namespace {

using Outputs = std::map<std::string, std::vector<std::byte>>;

/// A loss over a vocabulary, and the gradients that are named.
struct Work {
  int64_t rows = 300, classes = 1201, width = 16;  // three chunks
  DType dtype = DType::bf16;
  bool fused = true;
  std::vector<std::string> wanted = {"x", "w", "b"};
  float scale = 1;

  Outputs run(int threads) const {
    const auto backend = make_cpu_backend(threads);
    Program program;
    std::map<std::string, Value> in;
    in["x"] = program.input("x", {dtype, {rows, width}});
    in["w"] = program.input("w", {DType::f32, {classes, width}});
    in["b"] = program.input("b", {DType::f32, {classes}});
    const Value labels = program.input("labels", {DType::i32, {rows}});
    const Value seed = program.input("seed", {DType::f32, {1}});
    const LossAndCorrect loss = linear_cross_entropy(in["x"], in["w"], in["b"], labels, 0.1);
    program.output("loss", loss.loss);
    program.output("correct", loss.correct);
    std::vector<Value> wrt;
    for (const std::string& name : wanted) wrt.push_back(in[name]);
    const std::vector<Value> gradient = gradients(loss.loss, seed, wrt, op::add);
    for (size_t i = 0; i < wrt.size(); ++i) program.output(wanted[i], gradient[i]);
    program.remove_dead_nodes();
    if (fused) {
      fuse(program, *backend, fusions());
      EXPECT_EQ(program.nodes().size(), 1u) << program.dump();
    }
    return run(program, *backend);
  }

 private:
  Outputs run(const Program& program, Backend& backend) const {
    std::vector<std::vector<std::byte>> content;
    for (const auto& value : program.values()) {
      if (value.kind != ValueKind::kInput) continue;
      content.emplace_back(bytes_of(value.type));
      for (int64_t i = 0; i < elements(value.type); ++i) {
        const float x =
            value.name == "seed" ? scale : static_cast<float>(std::sin(0.7 * double(i * i % 977)));
        const auto label = static_cast<int32_t>(i % 5 == 3 ? -100 : 31 * i % classes);
        const bf16 b = to_bf16(x);
        const f16 h = to_f16(x);
        const void* from = value.type.dtype == DType::i32    ? static_cast<const void*>(&label)
                           : value.type.dtype == DType::bf16 ? &b
                           : value.type.dtype == DType::f16  ? static_cast<const void*>(&h)
                                                             : &x;
        const size_t bytes = size_of(value.type.dtype);
        std::memcpy(content.back().data() + static_cast<size_t>(i) * bytes, from, bytes);
      }
    }
    const Selection selection = select(program, backend);
    const MemoryPlan plan = backend.plan(program, selection);
    Bindings bindings;
    bindings.arena = backend.allocate(plan.arena_bytes).value();
    const auto executable = backend.compile(program, selection, plan, bindings).value();
    Slot slot;
    for (const auto& bytes : content) slot.inputs.emplace_back(bytes);
    Event event;
    executable->run(slot, &event).check();
    Outputs outputs;
    for (size_t o = 0; o < program.outputs().size(); ++o) {
      const auto& [name, id] = program.outputs()[o];
      outputs[name].resize(bytes_of(program.type(id)));
      executable->read(event, o, outputs[name]).check();
    }
    return outputs;
  }
};

TEST(LinearCrossEntropy, ThreadsChangeNoBits) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Work work{.dtype = dtype};
    const Outputs one = work.run(1);
    for (const int threads : {2, 3, 7}) EXPECT_EQ(work.run(threads), one) << name_of(dtype) << ' ' << threads;
  }
}

TEST(LinearCrossEntropy, IsItsPartsToTheBit) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    EXPECT_EQ((Work{.dtype = dtype}.run(2)), (Work{.dtype = dtype, .fused = false}.run(2))) << name_of(dtype);
}

TEST(LinearCrossEntropy, GradientsThatNothingReadsChangeNoOthers) {
  const Outputs all = Work{}.run(2);
  for (const std::vector<std::string>& wanted :
       std::vector<std::vector<std::string>>{{"x"}, {"w"}, {"x", "b"}}) {
    const Outputs some = Work{.wanted = wanted}.run(2);
    for (const auto& [name, bytes] : some)
      if (name != "b") {
        EXPECT_EQ(bytes, all.at(name)) << name;
      } else {  // summed in other blocks
        const auto* found = reinterpret_cast<const float*>(bytes.data());
        const auto* same = reinterpret_cast<const float*>(all.at(name).data());
        for (size_t j = 0; j < bytes.size() / sizeof(float); ++j) EXPECT_NEAR(found[j], same[j], 1e-6f) << j;
      }
  }
}

/// The scale of a loss in fp16 multiplies the gradients before they are rounded: none is lost.
TEST(LinearCrossEntropy, TheScaleOfTheLossComesBeforeRounding) {
  const auto zeros = [](float scale) {
    const Outputs out = Work{.dtype = DType::f16, .scale = scale}.run(2);
    const auto* dw = reinterpret_cast<const float*>(out.at("w").data());
    return std::count(dw, dw + out.at("w").size() / sizeof(float), 0.f);
  };
  EXPECT_GT(zeros(1e-4f), 0);
  EXPECT_EQ(zeros(1024), 0);
}

}  // namespace
}  // namespace lathe::cpu
