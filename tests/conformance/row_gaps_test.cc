// Gaps between the rows of activations change no bit.
#include <gtest/gtest.h>

#include "lathe/backends/register.h"
#include "lathe/engine/session.h"
#include "lathe/program/forwarding_backend_testing.h"
#include "lathe/program/memory_plan.h"
#include "lathe/train/auto_model.h"
#include "tests/conformance/made_batch.h"

namespace lathe::row_gaps_test {
namespace {

/// A device that asks for no gaps.
class Dense : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  MemoryPlan plan(const Program& program, const Selection& selection) const override {
    return plan_memory(program, selection, info().alignment);
  }
};

/// Rows of 512, 1,024 and 1,536 bytes.
AutoModel model(const std::string& type) {
  ModelConfig c;
  c.model_type = type;
  c.modern.local = {false, true}, c.modern.window = 8, c.modern.mean_pooling = true;
  c.vocab_size = 40, c.hidden_size = 256, c.num_hidden_layers = 2, c.num_attention_heads = 4;
  c.intermediate_size = 512, c.max_position_embeddings = 32;
  c.hidden_dropout_prob = 0.1, c.attention_probs_dropout_prob = 0.1, c.classifier_dropout = 0.1;
  return from_config(c, {single_label, {"a", "b", "c"}}, std::nullopt);
}

struct Trained {
  std::vector<float> parameters, logits, logits_int8;
  size_t arena_bytes;
};

Trained train(Backend& backend, const std::string& type, DType dtype) {
  AutoModel m = model(type);
  ProgramOptions options;
  options.dtype = dtype;
  Session session(backend, *m.model, {options});
  initialize(session.parameters(), m, 42);
  StepScalars scalars;
  scalars.learning_rate = 1e-3;
  for (int number = 0; number < 3; ++number)
    session.collect(session.step(made_batch({9, 32, 1, 17}, 64, 3, number), scalars));
  Trained result;
  const PackedBatch batch = made_batch({30, 2, 11}, 64, 3, 9);
  session.evaluate(batch, result.logits);
  session.evaluate(batch, result.logits_int8, {}, {}, nn::Quantization::kInt8);
  result.parameters = session.parameters().read_state("parameters");
  result.arena_bytes = session.programs().arena_bytes();
  return result;
}

class RowGaps : public testing::TestWithParam<const char*> {};

TEST_P(RowGaps, ChangeNoBit) {
  const std::shared_ptr<Backend> device = open_device("cpu", {2});
  Dense dense(device);
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    const Trained apart = train(*device, GetParam(), dtype), together = train(dense, GetParam(), dtype);
    EXPECT_EQ(apart.parameters, together.parameters) << name_of(dtype);
    EXPECT_EQ(apart.logits, together.logits) << name_of(dtype);
    EXPECT_EQ(apart.logits_int8, together.logits_int8) << name_of(dtype);
    EXPECT_EQ(apart.arena_bytes > together.arena_bytes, dtype != DType::f32);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RowGaps, testing::Values("bert", "modernbert"));

}  // namespace
}  // namespace lathe::row_gaps_test
