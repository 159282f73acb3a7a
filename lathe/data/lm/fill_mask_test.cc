#include "lathe/data/lm/fill_mask.h"

#include <gtest/gtest.h>

#include "lathe/data/golden_testing.h"
#include "lathe/data/test_data.h"
#include "lathe/io/file_system.h"
#include "lathe/io/safetensors.h"

namespace lathe {
namespace {

void expect_fills(const std::vector<MaskFill>& fills, const nlohmann::json& wanted) {
  ASSERT_EQ(fills.size(), wanted.size());
  for (size_t i = 0; i < fills.size(); ++i) {
    EXPECT_NEAR(fills[i].score, wanted[i]["score"].get<float>(), 1e-6 * fills[i].score);
    EXPECT_EQ(fills[i].token, wanted[i]["token"].get<int32_t>());
    EXPECT_EQ(fills[i].token_text, wanted[i]["token_str"].get<std::string>());
    EXPECT_EQ(fills[i].sequence, wanted[i]["sequence"].get<std::string>());
  }
}

TEST(FillMask, GivesWhatThePipelineGives) {
  for (const std::string family : {"bert", "distilbert", "roberta", "xlm_roberta", "modernbert"}) {
    SCOPED_TRACE(family);
    const std::string folder = source_path("tests/golden/mlm/") + family;
    const Tokenizer tokenizer = Tokenizer::load(folder);
    const auto file = SafetensorsFile::open(real_file_system(), folder + "/fill_mask_logits.safetensors");
    std::vector<float> room;
    const std::span<const float> all = f32_of(*file.find("logits"), room);
    const auto width = static_cast<size_t>(tokenizer.vocab_size());
    size_t used = 0;
    for (const auto& sentence : golden("../mlm/" + family + "/model_facts.json", "fill_mask")) {
      const Encoding encoding = tokenizer.encode(sentence["text"].get<std::string>());
      EXPECT_EQ(encoding.ids, sentence["ids"].get<std::vector<int32_t>>());
      const size_t masks = mask_positions(encoding.ids, tokenizer.mask_id()).size();
      const auto out = fill_masks(encoding.ids, all.subspan(used * width, masks * width), tokenizer);
      used += masks;
      ASSERT_EQ(out.size(), masks);
      const nlohmann::json& fills = sentence["fills"];
      for (size_t i = 0; i < masks; ++i) expect_fills(out[i], masks == 1 ? fills : fills[i]);
    }
    EXPECT_EQ(used * width, all.size());
  }
}

TEST(FillMask, TakesTextsWithoutMasksAndEqualScores) {
  const Tokenizer tokenizer = Tokenizer::load(source_path("tests/golden/mlm/bert"));
  EXPECT_TRUE(fill_masks(std::vector<int32_t>{2, 72, 3}, {}, tokenizer).empty());
  std::vector<float> logits(115, 3.0f);
  logits[80] = -200;
  const std::vector<int32_t> ids = {2, 4, 3};
  const auto out = fill_masks(ids, logits, tokenizer, 200);
  ASSERT_EQ(out[0].size(), 115u);
  for (int32_t i = 0; i < 80; ++i) EXPECT_EQ(out[0][i].token, i);
  EXPECT_EQ(out[0].back().token, 80);
  EXPECT_EQ(out[0][0].token_text, "[PAD]");
  EXPECT_EQ(out[0][0].sequence, "");
  // Padding that is filled in leaves no trace, as in the pipeline, though other special tokens show.
  const std::vector<int32_t> two = {2, 4, 72, 4, 3};
  EXPECT_EQ(fill_masks(two, std::vector<float>(230), tokenizer, 1)[0][0].sequence, "[CLS] the [MASK] [SEP]");
  message_of(ErrorCode::kInternal, [&] { fill_masks(ids, {}, tokenizer); });
}

}  // namespace
}  // namespace lathe
