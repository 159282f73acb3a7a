// Sizes that leave parameters on odd addresses change no numbers: a device computes what the reference does.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "lathe/backends/register.h"
#include "lathe/engine/session.h"
#include "lathe/train/auto_model.h"
#include "tests/conformance/made_batch.h"
#include "tests/device_under_test.h"

namespace lathe::odd_sizes_test {
namespace {

/// A head of RoBERTa is stored before its base, so that its labels move all biases.
struct Sizes {
  const char* model_type;
  int labels, hidden, intermediate;
};
constexpr Sizes kSizes[] = {
    {"roberta", 1, 40, 80}, {"roberta", 3, 160, 320}, {"bert", 2, 128, 129}, {"bert", 2, 160, 33}};

using Case = std::tuple<const char*, Sizes, DType>;
class OddSizes : public testing::TestWithParam<Case> {};

/// The losses of four updates.
std::vector<float> losses(const char* kind, const Sizes& sizes, DType dtype) {
  const nlohmann::json json = {{"model_type", sizes.model_type}, {"vocab_size", 40},
                               {"hidden_size", sizes.hidden},    {"num_hidden_layers", 2},
                               {"num_attention_heads", 2},       {"intermediate_size", sizes.intermediate},
                               {"max_position_embeddings", 34},  {"type_vocab_size", 1},
                               {"hidden_dropout_prob", 0.0},     {"attention_probs_dropout_prob", 0.0},
                               {"initializer_range", 0.1}};
  const auto device = open_device(kind, {.threads = 2});
  const MakeTask task = sizes.labels == 1 ? regression : single_label;
  std::vector<std::string> labels;
  for (int i = 0; i < sizes.labels; ++i) labels.push_back(std::to_string(i));
  AutoModel model = from_config(parse_model_config(json, "config.json"), {task, labels}, std::nullopt);
  Session::Options options;
  options.program.dtype = dtype;
  Session session(*device, *model.model, options);
  initialize(session.parameters(), model, 1);
  StepScalars scalars;
  scalars.learning_rate = 1e-3;
  std::vector<float> all;
  for (int step = 1; step <= 4; ++step) {
    scalars.update_step = scalars.adam_step = step;
    PackedBatch batch = made_batch({5, 32, 1, 17, 9}, 64, sizes.labels, step);
    if (task == regression) {
      const std::vector<int32_t> classes = batch.tensors.ints("labels");
      batch.tensors.floats("labels").assign(classes.begin(), classes.end());
    }
    all.push_back(session.collect(session.step(batch, scalars)).loss);
  }
  return all;
}

TEST_P(OddSizes, TrainAsTheReference) {
  const auto [kind, sizes, dtype] = GetParam();
  LATHE_NEEDS_DEVICE(kind);
  const std::vector<float> found = losses(kind, sizes, dtype), wanted = losses("ref", sizes, dtype);
  // Two layers round a token 16 times; a loss is a mean over rows.
  const float bound = dtype == DType::f32 ? 1e-5f : 16 * 0x1p-9f;
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_NEAR(found[i], wanted[i], bound * (1 + std::abs(wanted[i]))) << "update " << i + 1;
}

std::string name_of_case(const testing::TestParamInfo<Case>& test) {
  const auto& [kind, sizes, dtype] = test.param;
  return fmt::format("{}_{}_{}_{}_{}_{}", kind, sizes.model_type, sizes.labels, sizes.hidden,
                     sizes.intermediate, name_of(dtype));
}

INSTANTIATE_TEST_SUITE_P(Devices, OddSizes,
                         testing::Combine(testing::Values("cpu", "cuda", kMlxDevice),
                                          testing::ValuesIn(kSizes),
                                          testing::Values(DType::f32, DType::bf16, DType::f16)),
                         name_of_case);

}  // namespace
}  // namespace lathe::odd_sizes_test
