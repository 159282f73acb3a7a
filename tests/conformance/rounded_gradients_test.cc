// Gradients of linear layers' weights in bf16: what is rounded, what is not, and by how much an update
// differs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lathe/backends/register.h"
#include "lathe/engine/session.h"
#include "lathe/ops/all_reduce.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/linear.h"
#include "lathe/ops/ops.h"
#include "lathe/program/forwarding_backend_testing.h"
#include "lathe/program/fuse.h"
#include "lathe/train/auto_model.h"
#include "tests/conformance/made_batch.h"
#include "tests/device_under_test.h"

namespace lathe::rounded_gradients_test {
namespace {

constexpr int64_t kWidth = 32;
constexpr int kRows = 3, kRowTokens = 32;

AutoModel model() {
  ModelConfig c;
  c.vocab_size = 40, c.hidden_size = kWidth, c.num_hidden_layers = 2, c.num_attention_heads = 4;
  c.intermediate_size = 4 * kWidth, c.max_position_embeddings = kRowTokens;
  c.hidden_dropout_prob = 0.1, c.attention_probs_dropout_prob = 0.1, c.classifier_dropout = 0.1;
  return from_config(c, {single_label, {"a", "b", "c"}}, std::nullopt);
}

PackedBatch batch(int number) {
  return made_batch(std::vector<int>(kRows, kRowTokens), kRows * kRowTokens, 3, number);
}

ProgramOptions options(DType dtype, bool rounded, const OptimizerOptions& optimizer = AdamWOptions{}) {
  ProgramOptions o;
  o.dtype = dtype;
  o.optimizer = optimizer;
  o.rounded_gradients = rounded;
  return o;
}

/// A backend without op::linear_bwd_weight_cast, over one that does the work: a session rounds there only if
/// it is told to.
class Plain : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::vector<const Impl*> implementations(const OpDef& op) const override {
    return &op == &op::linear_bwd_weight_cast ? std::vector<const Impl*>{} : real_->implementations(op);
  }
};

struct Trained {
  float loss, norm;
  std::vector<float> first_moments, parameters;
};

/// One update.  The first moments are then a tenth of the clipped gradients.
Trained train(Backend& backend, DType dtype, bool rounded, bool accumulated = false) {
  AutoModel m = model();
  Session session(backend, *m.model, {options(dtype, rounded)});
  initialize(session.parameters(), m, 42);
  StepScalars scalars;
  scalars.learning_rate = 1e-2, scalars.max_grad_norm = 0;
  Session::Outcome outcome;
  if (accumulated) {
    outcome.loss = session.collect(session.accumulate(batch(1), scalars)).loss;
    outcome.grad_norm = session.collect(session.update(scalars)).grad_norm;
  } else {
    outcome = session.collect(session.step(batch(1), scalars));
  }
  return {outcome.loss, outcome.grad_norm, session.parameters().read_state("exp_avg"),
          session.parameters().read_state("parameters")};
}

class RoundedGradients : public testing::TestWithParam<const char*> {};

TEST_P(RoundedGradients, AreTheExactOnesRoundedAndNoOthersChange) {
  LATHE_NEEDS_DEVICE(GetParam());
  const std::shared_ptr<Backend> device = open_device(GetParam(), {2});
  Plain plain(device);
  const Trained exact = train(plain, DType::bf16, false), rounded = train(*device, DType::bf16, true);
  EXPECT_EQ(exact.loss, rounded.loss);
  EXPECT_NE(exact.norm, rounded.norm);
  EXPECT_NEAR(exact.norm, rounded.norm, exact.norm * 0x1p-8);
  const AutoModel m = model();
  const nn::Layout layout = nn::layout_of(*m.model);
  for (size_t k = 0; k < m.model->parameters().size(); ++k) {
    const nn::Parameter& p = m.model->parameters()[k];
    const bool embedding = p.name.find("embeddings") != std::string::npos;
    const bool rounds = p.shape.size() == 2 && !embedding;
    const auto begin = exact.first_moments.begin() + layout.parameters[k].offset,
               end = begin + elements(p.shape);
    const auto found = rounded.first_moments.begin() + layout.parameters[k].offset;
    // Where the library rounds, another of its algorithms may add the products up in another order.
    const float most =
        std::abs(*std::max_element(begin, end, [](float a, float b) { return std::abs(a) < std::abs(b); }));
    const double reordered = GetParam() == std::string("cuda") ? 1e-5 * most : 0;
    int64_t differ = 0;
    for (int64_t i = 0; i < elements(p.shape); ++i) {
      const double error = std::abs(double{begin[i]} - found[i]);
      ASSERT_LE(error, reordered + (rounds ? std::abs(begin[i]) * (0x1p-8 + 0x1p-20) : 0))
          << p.name << " " << i;
      differ += error > reordered;
    }
    EXPECT_GE(differ, rounds ? elements(p.shape) / 4 : 0) << p.name;
  }
}

TEST_P(RoundedGradients, AreThoseOfOneStepInBf16Alone) {
  LATHE_NEEDS_DEVICE(GetParam());
  const std::shared_ptr<Backend> device = open_device(GetParam(), {2});
  Plain plain(device);
  EXPECT_EQ(train(*device, DType::f32, true).parameters, train(plain, DType::f32, false).parameters);
  EXPECT_EQ(train(*device, DType::bf16, true, true).parameters,
            train(plain, DType::bf16, false, true).parameters);
}

INSTANTIATE_TEST_SUITE_P(Devices, RoundedGradients, testing::Values("cpu", "cuda", kMlxDevice),
                         [](const auto& i) { return std::string(i.param); });

std::unique_ptr<Program> step_program(const ProgramOptions& options) {
  AutoModel m = model();
  return build_program(*m.model, ProgramKind::kStep, {kRows * kRowTokens, kRows}, options);
}
int64_t bf16_elements_summed(const Program& program) {
  int64_t count = 0;
  for (const Node& node : program.nodes())
    if (const Type& type = program.type(node.out[0]); node.op == &op::all_reduce && type.dtype == DType::bf16)
      count += elements(type);
  return count;
}

TEST(RoundedGradientsOfRanks, TravelInHalfTheBytesAndTheMeanLossDoesNot) {
  ProgramOptions o = options(DType::bf16, true);
  o.ranks = 2, o.bucket_bytes = 10000;
  const auto program = step_program(o);
  const int64_t layer = kWidth * kWidth * (3 + 1 + 4 + 4);
  EXPECT_EQ(bf16_elements_summed(*program), 2 * layer + kWidth * kWidth + 3 * kWidth);
  int64_t summed = 0;
  for (const Node& node : program->nodes())
    if (node.op == &op::all_reduce) summed += elements(program->type(node.out[0]));
  EXPECT_EQ(summed, nn::layout_of(*model().model).trainable + 2);  // loss and stop
  o.rounded_gradients = false;
  EXPECT_EQ(bf16_elements_summed(*step_program(o)), 0);
}

TEST(RoundedGradientsOfRanks, AreNotForOptimizersThatDoNotTakeThem) {
  ProgramOptions o = options(DType::bf16, true, SgdOptions{});
  o.ranks = 2;
  EXPECT_EQ(bf16_elements_summed(*step_program(o)), 0);
}

/// Each product is rounded where it is computed, by one node where the device has it.
void expect_no_casts_on(const std::string& device) {
  const auto backend = open_device(device, {});
  const auto program = step_program(options(DType::bf16, true));
  fuse(*program, *backend, fusions());
  const auto count = [&](const OpDef& op) {
    return std::count_if(program->nodes().begin(), program->nodes().end(),
                         [&](const Node& node) { return node.op == &op; });
  };
  EXPECT_EQ(count(op::linear_bwd_weight), 0);
  EXPECT_EQ(count(op::linear_bwd_weight_cast), 2 * 4 + 2);
}

TEST(RoundedGradients, AreRoundedByTheProductsThemselvesOnCpu) { expect_no_casts_on("cpu"); }

TEST(RoundedGradients, AreRoundedByTheProductsThemselvesOnCuda) {
  LATHE_NEEDS_DEVICE("cuda");
  expect_no_casts_on("cuda");
}

}  // namespace
}  // namespace lathe::rounded_gradients_test
