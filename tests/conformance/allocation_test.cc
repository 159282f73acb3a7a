// A run of the CPU is a fixed list of work: once its program is compiled no new allocates anything.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "lathe/backends/register.h"
#include "lathe/engine/session.h"
#include "lathe/ops/elementwise.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/ops.h"
#include "lathe/program/autograd.h"
#include "lathe/program/fuse.h"
#include "lathe/train/auto_model.h"
#include "tests/conformance/made_batch.h"

namespace {

std::atomic<long> allocations{0};  // by all threads

void* allocate(size_t bytes, size_t alignment) {
  ++allocations;
  void* data = nullptr;
  if (posix_memalign(&data, alignment, bytes) != 0) throw std::bad_alloc();
  return data;
}

}  // namespace

// All other forms of new and delete call these.  Inlined, GCC takes free for no partner of new.
[[gnu::noinline]] void* operator new(size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* data) noexcept { free(data); }
[[gnu::noinline]] void operator delete(void* data, size_t) noexcept { free(data); }
[[gnu::noinline]] void operator delete(void* data, std::align_val_t) noexcept { free(data); }
[[gnu::noinline]] void operator delete(void* data, size_t, std::align_val_t) noexcept { free(data); }

namespace lathe {
namespace {

constexpr int kRowTokens = 32, kTokens = 3 * kRowTokens, kRuns = 5;

AutoModel model() {
  ModelConfig c;
  c.vocab_size = 40, c.hidden_size = 64, c.num_hidden_layers = 2, c.num_attention_heads = 4;
  c.intermediate_size = 256, c.max_position_embeddings = kRowTokens;
  return from_config(c, {single_label, {"a", "b"}}, std::nullopt);
}

/// Of `run`, after two others: the first compiles, the second is the first whose loss is collected late.
template <typename F>
long allocations_of(F&& run) {
  run(), run();
  const long before = allocations;
  for (int i = 0; i < kRuns; ++i) run();
  return allocations - before;
}

struct Setting {
  DType dtype;
  int threads;
  int64_t recompute_every;
};

class Allocation : public testing::TestWithParam<Setting> {
 protected:
  std::unique_ptr<Backend> device_ = open_device("cpu", {GetParam().threads});
  AutoModel model_ = model();
  Session session_{*device_, *model_.model, [] {
                     Session::Options o;
                     o.program.dtype = GetParam().dtype;
                     o.program.recompute_every = GetParam().recompute_every;
                     return o;
                   }()};
  const PackedBatch batch_ = made_batch({kRowTokens, 20, kRowTokens}, kTokens, 2, 0);
  void SetUp() override { initialize(session_.parameters(), model_, 42); }
};

TEST_P(Allocation, IsCounted) {
  const long before = allocations;
  const auto one = std::make_unique<int>(1);
  EXPECT_EQ(allocations - before, *one);
}

TEST_P(Allocation, AStepHasNone) {
  Session::Pending last;
  EXPECT_EQ(allocations_of([&] {
              const Session::Pending before = std::exchange(last, session_.step(batch_, {}));
              if (before.compiled != nullptr) session_.collect(before);
            }),
            0);
}

TEST_P(Allocation, AnAccumulatedStepHasNone) {
  EXPECT_EQ(allocations_of([&] {
              StepScalars scalars;
              scalars.loss_weight = 0.5;
              for (const bool first : {true, false}) {
                scalars.first_micro = first;
                session_.collect(session_.accumulate(batch_, scalars));
              }
              session_.collect(session_.update(scalars));
            }),
            0);
}

TEST_P(Allocation, AForwardPassHasNone) {
  std::vector<float> logits;
  for (const nn::Quantization quantization : {nn::Quantization::kNone, nn::Quantization::kInt8})
    EXPECT_EQ(allocations_of([&] { session_.evaluate(batch_, logits, {}, {}, quantization); }), 0);
}

TEST(LossOverAVocabulary, HasNone) {
  const auto device = open_device("cpu", {2});
  Program program;
  const Value x = program.input("x", {DType::bf16, {300, 16}}),
              w = program.input("w", {DType::f32, {500, 16}});
  const Value labels = program.input("labels", {DType::i32, {300}});
  const Value seed = program.input("seed", {DType::f32, {1}});
  const Value loss = linear_cross_entropy(x, w, {}, labels).loss;
  for (const Value gradient : gradients(loss, seed, {x, w}, op::add))
    program.output("d" + std::to_string(gradient.id), gradient, true);
  program.output("loss", loss);
  program.remove_dead_nodes();
  fuse(program, *device, fusions());
  const Selection selection = select(program, *device);
  const MemoryPlan plan = device->plan(program, selection);
  Bindings bindings;
  bindings.arena = device->allocate(plan.arena_bytes).value();
  const auto executable = device->compile(program, selection, plan, bindings).value();
  std::vector<std::vector<std::byte>> contents;
  Slot slot;
  for (const ValueInfo& value : program.values())
    if (value.kind == ValueKind::kInput) contents.emplace_back(bytes_of(value.type));
  for (const auto& content : contents) slot.inputs.emplace_back(content);
  EXPECT_EQ(allocations_of([&] {
              Event event;
              executable->run(slot, &event).check();
              executable->wait(event).check();
            }),
            0);
}

INSTANTIATE_TEST_SUITE_P(Cpu, Allocation,
                         testing::Values(Setting{DType::f32, 1, 0}, Setting{DType::bf16, 2, 0},
                                         Setting{DType::f16, 2, 0}, Setting{DType::bf16, 2, 1}),
                         [](const auto& i) {
                           return fmt::format("{}_{}_threads{}", name_of(i.param.dtype), i.param.threads,
                                              i.param.recompute_every > 0 ? "_recomputed" : "");
                         });

}  // namespace
}  // namespace lathe
