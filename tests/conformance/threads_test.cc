// The number of the CPU's threads changes no bit, in a model whose products are cut into blocks and regions.
#include <gtest/gtest.h>

#include <cstring>

#include "lathe/backends/register.h"
#include "lathe/engine/session.h"
#include "lathe/train/auto_model.h"
#include "tests/conformance/made_batch.h"

namespace lathe::threads_test {
namespace {

constexpr int kRowTokens = 96, kTokens = 416, kUpdates = 2;

AutoModel model() {
  ModelConfig c;  // as wide as MiniLM
  c.vocab_size = 40, c.hidden_size = 384, c.num_hidden_layers = 2, c.num_attention_heads = 12;
  c.intermediate_size = 1536, c.max_position_embeddings = kRowTokens;
  return from_config(c, {single_label, {"a", "b"}}, std::nullopt);
}

struct Bits {
  std::vector<float> weights, moments, scores, int8_scores;
};

/// Of a few updates and what the model says then.
Bits trained(DType dtype, int threads) {
  const auto device = open_device("cpu", {threads});
  AutoModel m = model();
  Session::Options options;
  options.program.dtype = dtype;
  Session session(*device, *m.model, options);
  initialize(session.parameters(), m, 42);
  const PackedBatch batch = made_batch({kRowTokens, 53, kRowTokens, 1, kRowTokens, 71}, kTokens, 2, 0);
  StepScalars scalars;
  scalars.learning_rate = 1e-3;
  for (int i = 1; i <= kUpdates; ++i) {
    scalars.update_step = scalars.adam_step = i;
    session.collect(session.step(batch, scalars));
  }
  Bits bits{
      session.parameters().read_state("parameters"), session.parameters().read_state("exp_avg_sq"), {}, {}};
  session.evaluate(batch, bits.scores);
  session.evaluate(batch, bits.int8_scores, {}, {}, nn::Quantization::kInt8);
  return bits;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Threads : public testing::TestWithParam<DType> {};

TEST_P(Threads, ChangeNoBitOfATraining) {
  const Bits wanted = trained(GetParam(), 1);
  EXPECT_FALSE(same(wanted.scores, wanted.int8_scores));
  for (const int threads : {2, 5}) {
    const Bits found = trained(GetParam(), threads);
    EXPECT_TRUE(same(found.weights, wanted.weights)) << threads;
    EXPECT_TRUE(same(found.moments, wanted.moments)) << threads;
    EXPECT_TRUE(same(found.scores, wanted.scores)) << threads;
    EXPECT_TRUE(same(found.int8_scores, wanted.int8_scores)) << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Threads, testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& i) { return std::string(name_of(i.param)); });

}  // namespace
}  // namespace lathe::threads_test
