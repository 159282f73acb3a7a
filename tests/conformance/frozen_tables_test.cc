// Frozen tables lie in the dtype of their file: the same bits in half the bytes.
#include <gtest/gtest.h>

#include "lathe/backends/register.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/engine/session.h"
#include "lathe/train/trainer_arguments.h"
#include "tests/conformance/made_batch.h"
#include "tests/device_under_test.h"

namespace lathe::frozen_tables_test {
namespace {

constexpr const char* kWords = "bert.embeddings.word_embeddings.weight";

/// A classifier of 30 tokens whose files are in that dtype (tests/golden/formats), its base frozen.
AutoModel model(const std::string& stored, const MakeTask& task) {
  const std::string folder = source_path("tests/golden/formats/") + stored;
  AutoModel m = from_pretrained(real_file_system(), {.weights = folder, .config = folder, .tokenizer = ""},
                                {task, {"a", "b"}});
  m.model->set_trainable("bert.", false);
  return m;
}

PackedBatch batch(bool scored, int number) {
  PackedBatch b = made_batch({5, 3, 8}, 16, 2, number);
  for (int32_t& id : b.input_ids) id %= 30;
  if (!scored) return b;
  b.tensors.clear();
  std::vector<int32_t>& labels = b.tensors.ints("labels", Extent::kScored);
  for (int token = 0; token < b.tokens; ++token)
    labels.push_back(token % 3 == 0 ? (token + number) % 30 : -100);
  keep_scored({1, 1}, labels, b);
  return b;
}

struct Trained {
  std::vector<float> losses, weights;
  size_t table_bytes = 0;
  bool operator==(const Trained& o) const { return losses == o.losses && weights == o.weights; }
};

Trained trained(Backend& backend, AutoModel m, DType dtype, bool scored) {
  Session::Options options;
  options.program.dtype = options.program.storage.frozen_products = dtype;
  Session session(backend, *m.model, options);
  initialize(session.parameters(), m, 42);
  Trained run;
  StepScalars scalars;
  scalars.learning_rate = 1e-2;
  for (int step = 1; step <= 3; ++step) {
    scalars.update_step = scalars.adam_step = step;
    run.losses.push_back(session.collect(session.step(batch(scored, step), scalars)).loss);
  }
  for (size_t i = 0; i < m.model->parameters().size(); ++i) {
    const std::vector<float> more = session.parameters().read(static_cast<int>(i));
    run.weights.insert(run.weights.end(), more.begin(), more.end());
  }
  run.table_bytes = session.parameters().buffers().at(std::string("frozen.") + kWords).bytes;
  return run;
}

class FrozenTables : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { LATHE_NEEDS_DEVICE(GetParam()); }
};

TEST_P(FrozenTables, ChangeNoBitInTheDtypeOfTheirFile) {
  const auto backend = open_device(GetParam(), {2});
  constexpr size_t kElements = 30 * 16;
  for (const char* stored : {"bf16", "f16"})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const bool scored : {false, true}) {
        SCOPED_TRACE(std::string(stored) + " in " + std::string(name_of(dtype)) + (scored ? ", tied" : ""));
        const MakeTask task = scored ? masked_lm : single_label;
        AutoModel wide = model(stored, task);
        for (size_t i = 0; i < wide.model->parameters().size(); ++i)
          wide.model->set_stored(static_cast<int>(i), DType::f32, false);
        const Trained found = trained(*backend, model(stored, task), dtype, scored);
        const Trained wanted = trained(*backend, std::move(wide), dtype, scored);
        EXPECT_TRUE(found == wanted);
        // A tied table lies so only where the products read that dtype.
        const bool narrow = !scored || name_of(dtype) == stored;
        EXPECT_EQ(found.table_bytes, kElements * (narrow ? 2 : 4));
        EXPECT_EQ(wanted.table_bytes, kElements * 4);
      }
}

INSTANTIATE_TEST_SUITE_P(Devices, FrozenTables, testing::Values("cpu", "cuda", kMlxDevice),
                         [](const auto& i) { return std::string(i.param); });

/// Next to a table that is trained, or that its file has in f32 or in another shape, all stay in f32.
TEST(StoredTables, AreThoseOfTheFile) {
  const auto dtype = [](const AutoModel& m) {
    const nn::Layout layout = nn::layout_of(*m.model);
    return layout.parameters[static_cast<size_t>(m.model->find(kWords))].dtype;
  };
  AutoModel m = model("bf16", single_label);
  EXPECT_EQ(dtype(m), DType::bf16);
  AutoModel twin = twin_of(m);
  EXPECT_EQ(dtype(twin), DType::f32);
  twin.model->set_trainable("bert.", false);
  EXPECT_EQ(dtype(twin), DType::bf16);
  m.model->set_trainable("bert.embeddings.position_embeddings.weight", true);
  EXPECT_EQ(dtype(m), DType::f32) << "kernels read all tables together";
  EXPECT_EQ(dtype(model("f32", single_label)), DType::f32);
  const std::string folder = source_path("tests/golden/formats/bf16");
  AutoModel grown = from_pretrained(
      real_file_system(),
      {.weights = folder, .config = folder, .tokenizer = "", .config_overrides = "vocab_size=31"},
      {single_label, {"a", "b"}, true});
  grown.model->set_trainable("bert.", false);
  EXPECT_EQ(dtype(grown), DType::f32) << "new values need not be ones of bf16";
}

}  // namespace
}  // namespace lathe::frozen_tables_test
