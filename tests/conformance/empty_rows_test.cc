// Where nothing goes by row, a smaller batch is filled up with rows without tokens: one program serves both,
// and the bits are those of the batch by itself.
#include <gtest/gtest.h>

#include "lathe/backends/register.h"
#include "lathe/engine/session.h"
#include "lathe/train/auto_model.h"
#include "tests/conformance/made_batch.h"
#include "tests/device_under_test.h"

namespace lathe::empty_rows_test {
namespace {

constexpr int kTokens = 24;

AutoModel model(const MakeTask& task) {
  ModelConfig c;
  c.vocab_size = 40, c.hidden_size = 32, c.num_hidden_layers = 2, c.num_attention_heads = 2;
  c.intermediate_size = 64, c.max_position_embeddings = 16;
  return from_config(c, {task, {"a", "b", "c"}}, std::nullopt);
}

PackedBatch batch(const std::vector<int>& lengths, const MakeTask& task) {
  PackedBatch b = made_batch(lengths, kTokens, 3, 1);
  if (task == single_label) return b;
  b.tensors.clear();
  const bool scored = task == masked_lm;
  std::vector<int32_t>& labels = b.tensors.ints("labels", scored ? Extent::kScored : Extent::kToken);
  for (int token = 0; token < b.tokens; ++token)
    labels.push_back(token < b.real_tokens() && token % 3 == 0 ? token % 3 : -100);
  if (scored) keep_scored({8, 8}, labels, b);
  return b;
}

struct Ran {
  std::shared_ptr<const CompiledProgram> program;
  std::vector<float> values;
};

/// The loss of the last batch and the weights after an update by it; the batches before only run.
Ran trained(Backend& backend, const MakeTask& task, const std::vector<std::vector<int>>& batches) {
  AutoModel m = model(task);
  Session session(backend, *m.model, {});
  initialize(session.parameters(), m, 3);
  StepScalars scalars;
  scalars.learning_rate = 1e-2;
  Ran ran;
  for (const std::vector<int>& lengths : batches) {
    const Session::Pending pending = session.accumulate(batch(lengths, task), scalars);
    ran = {pending.compiled, {session.collect(pending).loss}};
  }
  session.collect(session.update(scalars));
  for (size_t i = 0; i < m.model->parameters().size(); ++i) {
    const std::vector<float> more = session.parameters().read(static_cast<int>(i));
    ran.values.insert(ran.values.end(), more.begin(), more.end());
  }
  return ran;
}

/// Loss and scores of the last batch.
std::vector<float> evaluated(Backend& backend, const MakeTask& task,
                             const std::vector<std::vector<int>>& batches) {
  AutoModel m = model(task);
  Session session(backend, *m.model, {});
  initialize(session.parameters(), m, 3);
  std::vector<float> values;
  for (const std::vector<int>& lengths : batches) {
    const PackedBatch b = batch(lengths, task);
    const float loss = session.evaluate(b, values);
    EXPECT_EQ(std::ssize(values) % session.rows_of_scores(b), 0);
    values.push_back(loss);
  }
  return values;
}

class EmptyRows : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { LATHE_NEEDS_DEVICE(GetParam()); }
};

const std::vector<int> kLarge = {5, 3, 8, 4, 2}, kSmall = {9, 12};

TEST_P(EmptyRows, FillASmallerBatchAndChangeNoBit) {
  const auto backend = open_device(GetParam(), {2});
  for (const MakeTask task : {token_labels, masked_lm}) {
    SCOPED_TRACE(task == token_labels ? "token labels" : "masked LM");
    const Ran large = trained(*backend, task, {kLarge}), both = trained(*backend, task, {kLarge, kSmall});
    EXPECT_EQ(both.program->program->dump(), large.program->program->dump());
    EXPECT_EQ(both.values, trained(*backend, task, {kSmall}).values);
    EXPECT_EQ(evaluated(*backend, task, {kLarge, kSmall}), evaluated(*backend, task, {kSmall}));
  }
}

/// A label per row: its mean is over the rows that there are.
TEST_P(EmptyRows, AreNoneWhereATaskGoesByRow) {
  const auto backend = open_device(GetParam(), {2});
  const Ran large = trained(*backend, single_label, {kLarge});
  const Ran both = trained(*backend, single_label, {kLarge, kSmall});
  EXPECT_NE(both.program->program->dump(), large.program->program->dump());
  EXPECT_EQ(both.values, trained(*backend, single_label, {kSmall}).values);
}

INSTANTIATE_TEST_SUITE_P(Devices, EmptyRows, testing::Values("ref", "cpu", "cuda", kMlxDevice),
                         [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace lathe::empty_rows_test
