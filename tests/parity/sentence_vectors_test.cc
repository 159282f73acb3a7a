// Poolings of a tiny random model of every family against sentence-transformers.  Golden files:
// tests/golden/README.md.
#include <gtest/gtest.h>

#include <cmath>

#include "lathe/core/source_folder_testing.h"
#include "lathe/engine/session.h"
#include "lathe/io/safetensors.h"
#include "lathe/models/pretrained.h"
#include "lathe/models/sentence/pooling_inputs.h"
#include "lathe/models/sentence/sentence_folder.h"
#include "lathe/train/auto_model.h"
#include "tests/device_under_test.h"
#include "tests/parity/stored_batch.h"

namespace lathe::sentence_vectors_test {
namespace {

const char* const kFamilies[] = {"bert",       "camembert", "distilbert", "electra",
                                 "modernbert", "roberta",   "xlm_roberta"};
using Modes = std::vector<PoolingMode>;
const Modes kPoolings[] = {{PoolingMode::kCls},
                           {PoolingMode::kMax},
                           {PoolingMode::kMean},
                           {PoolingMode::kMeanSqrtLength},
                           {PoolingMode::kWeightedMean},
                           {PoolingMode::kLastToken},
                           {PoolingMode::kMean, PoolingMode::kCls, PoolingMode::kMax},
                           {PoolingMode::kWeightedMean, PoolingMode::kLastToken}};

std::string name_of_modes(const Modes& modes) {
  std::string name;
  for (const PoolingMode mode : modes) name += (name.empty() ? "" : "+") + std::string(name_of(mode));
  return name;
}

/// A family's vectors of its stored batch, pooled so.  prompt: tokens at the beginning that do not count.
std::vector<float> vectors_of(const std::string& folder, Backend& backend, const Modes& modes, int prompt) {
  FileSystem& fs = real_file_system();
  ModelConfig config = read_model_config(fs, folder);
  auto sentence = std::make_shared<SentenceFolder>();
  sentence->pooling = {.width = config.hidden_size, .modes = modes, .include_prompt = prompt == 0};
  config.sentence = sentence;
  const auto model = make_model(config, sentence_vectors());
  model->set_trainable("", false);
  Session session(backend, *model, {});
  const auto checkpoint = open_checkpoint(fs, folder);
  const LoadReport report = load_parameters(
      *model, *checkpoint, [&](int i, const TensorView& v) { session.parameters().write(i, v); });
  EXPECT_TRUE(report.missing.empty());
  PackedBatch batch = packed_batch(SafetensorsFile::open(fs, folder + "/batch.safetensors"));
  if (prompt > 0) batch.tensors.ints(kPromptLength).assign(static_cast<size_t>(batch.rows), prompt);
  std::vector<float> out;
  session.evaluate(batch, out);
  return out;
}

class SentenceVectors : public testing::TestWithParam<std::tuple<std::string, const char*>> {
 protected:
  void SetUp() override { LATHE_NEEDS_DEVICE(device()); }
  const std::string& device() const { return std::get<0>(GetParam()); }
  std::string family() const { return std::get<1>(GetParam()); }
};

TEST_P(SentenceVectors, AreThoseOfThePackage) {
  const std::string golden = source_path("tests/golden/");
  const auto stored =
      SafetensorsFile::open(real_file_system(), golden + "sentence_vectors/" + family() + ".safetensors");
  const auto backend = open_device(device(), {2});
  const double bound = device() == "ref" || device() == "cpu" ? 1e-6 : 4e-6;
  for (const Modes& modes : kPoolings)
    for (const int prompt : {0, 2}) {
      const std::string name = name_of_modes(modes) + (prompt > 0 ? "/prompt" : "");
      const std::vector<float> wanted = floats(stored, name);
      const std::vector<float> found =
          vectors_of(golden + "tiny_" + family() + "/classification", *backend, modes, prompt);
      ASSERT_EQ(found.size(), wanted.size()) << name;
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], wanted[i], bound * std::max(1.0f, std::abs(wanted[i]))) << name << " " << i;
    }
}

INSTANTIATE_TEST_SUITE_P(, SentenceVectors,
                         testing::Combine(devices_under_test(), testing::ValuesIn(kFamilies)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::get<1>(test.param);
                         });

}  // namespace
}  // namespace lathe::sentence_vectors_test
