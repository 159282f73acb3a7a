// Gradient checkpointing: the same bits, from less memory.
#include <gtest/gtest.h>

#include "lathe/backends/register.h"
#include "lathe/engine/session.h"
#include "lathe/ops/ops.h"
#include "lathe/program/fuse.h"
#include "lathe/train/auto_model.h"
#include "tests/conformance/made_batch.h"
#include "tests/device_under_test.h"

namespace lathe::checkpointing_test {
namespace {

constexpr int64_t kLayers = 6, kWidth = 32, kHeads = 4, kInner = 4 * kWidth;
constexpr int kRows = 3, kRowTokens = 32;

ModelConfig config() {
  ModelConfig c;
  c.vocab_size = 40, c.hidden_size = kWidth, c.num_hidden_layers = kLayers, c.num_attention_heads = kHeads;
  c.intermediate_size = kInner, c.max_position_embeddings = kRowTokens;
  c.hidden_dropout_prob = 0.2, c.attention_probs_dropout_prob = 0.1, c.classifier_dropout = 0.1;
  return c;
}

AutoModel model() { return from_config(config(), {single_label, {"a", "b"}}, std::nullopt); }

/// Rows of full length but for the last, whose tokens do not fill the batch.
PackedBatch batch(int number) {
  return made_batch({kRowTokens, kRowTokens, kRowTokens - 5}, kRows * kRowTokens, 2, number);
}

ProgramOptions options(DType dtype, int64_t every) {
  ProgramOptions o;
  o.dtype = dtype;
  o.recompute_every = every;
  return o;
}

struct Setting {
  const char* device;
  DType dtype;
  int64_t every;
  bool accumulate;
};

class Checkpointing : public testing::TestWithParam<Setting> {};

/// Losses, norms, weights and moments of a few updates.
std::vector<float> train(const Setting& s, int64_t every) {
  const auto backend = open_device(s.device, {2});
  AutoModel m = model();
  Session session(*backend, *m.model, {options(s.dtype, every)});
  initialize(session.parameters(), m, 42);
  std::vector<float> all;
  StepScalars scalars;
  scalars.learning_rate = 1e-2;
  const auto add = [&](const Session::Pending& run) {
    const Session::Outcome outcome = session.collect(run);
    all.insert(all.end(), {outcome.loss, outcome.grad_norm});
  };
  for (int step = 1; step <= (s.accumulate ? 2 : 4); ++step) {
    scalars.update_step = step;
    if (!s.accumulate) {
      add(session.step(batch(step), scalars));
      continue;
    }
    for (int micro = 0; micro < 2; ++micro) {
      scalars.first_micro = micro == 0;
      add(session.accumulate(batch(2 * step + micro), scalars));
    }
    add(session.update(scalars));
  }
  for (const char* name : {"parameters", "exp_avg", "exp_avg_sq"}) {
    const std::vector<float> state = session.parameters().read_state(name);
    all.insert(all.end(), state.begin(), state.end());
  }
  return all;
}

TEST_P(Checkpointing, GivesTheSameBits) {
  LATHE_NEEDS_DEVICE(GetParam().device);
  const std::vector<float> kept = train(GetParam(), 0);
  EXPECT_NE(kept[0], kept[2]);  // it learns, or draws other masks
  EXPECT_EQ(train(GetParam(), GetParam().every), kept);
}

INSTANTIATE_TEST_SUITE_P(
    All, Checkpointing,
    testing::Values(Setting{"cpu", DType::f32, 1, false}, Setting{"cpu", DType::bf16, 1, false},
                    Setting{"cpu", DType::bf16, 4, false}, Setting{"cpu", DType::bf16, 1, true},
                    Setting{"ref", DType::f32, 1, false}, Setting{"cuda", DType::bf16, 1, false},
                    Setting{"cuda", DType::f32, 1, true}, Setting{kMlxDevice, DType::f32, 1, false},
                    Setting{kMlxDevice, DType::bf16, 3, true}),
    [](const auto& i) {
      return fmt::format("{}_{}_every_{}{}", i.param.device, name_of(i.param.dtype), i.param.every,
                         i.param.accumulate ? "_accumulated" : "");
    });

/// The arena, and the gradients, which lie in it.
struct Planned {
  size_t bytes, gradients;
};
Planned planned(Backend& backend, DType dtype, int64_t every, int64_t rows) {
  AutoModel m = model();
  const auto program =
      build_program(*m.model, ProgramKind::kStep, {rows * kRowTokens, rows}, options(dtype, every));
  fuse(*program, backend, fusions());
  return {backend.plan(*program, select(*program, backend)).arena_bytes,
          static_cast<size_t>(nn::layout_of(*m.model).trainable) * sizeof(float)};
}

/// When the backward pass begins, a layer has kept, in addition to its input: q, k, v and context; what goes
/// into its two norms, with the two means and rstds of each token; what comes out of the first norm; what
/// goes into its activation and comes out of it; the lse of attention.  The last one has q, k, v, context and
/// lse of all tokens, the rest only of first tokens.  With checkpointing one layer has.
/// What is alive together shrinks by just that, less at most the gradients, which come to lie where
/// activations were.  Its places may not: they are sought greedily, the smallest values' last, and here mean
/// and rstd of one norm find no gap.
TEST(CheckpointingPlan, LeavesOutWhatAllLayersButOneKeep) {
  const auto backend = open_device("cpu", {1});
  const int64_t rows = 16 * kRows;  // activations are several times the gradients
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const size_t tokens = static_cast<size_t>(rows * kRowTokens);
    const size_t layer = tokens * (size_of(dtype) * (7 * kWidth + 2 * kInner) + 4 * (4 + kHeads));
    const size_t last = tokens * (size_of(dtype) * 4 * kWidth + 4 * kHeads);
    const auto [kept, gradients] = planned(*backend, dtype, 0, rows);
    ASSERT_GT(layer, 2 * gradients);
    const size_t one = planned(*backend, dtype, 1, rows).bytes,
                 three = planned(*backend, dtype, 3, rows).bytes;
    EXPECT_GE(kept - one + gradients + 2 * 4 * tokens, (kLayers - 2) * layer + last) << name_of(dtype);
    // Layers 0 and 3 of six: four keep all; of the others one at a time.
    EXPECT_GE(kept - three + gradients, layer) << name_of(dtype);
    EXPECT_LT(kept - three, 2 * layer + 8 * tokens * kWidth) << name_of(dtype);
  }
}

}  // namespace
}  // namespace lathe::checkpointing_test
