#include "lathe/data/lm/mask_collator.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lathe/data/golden_testing.h"
#include "lathe/data/test_data.h"

namespace lathe {
namespace {

using Rows = std::vector<std::vector<int32_t>>;

// The tokenizer of tests/golden/tiny_bert: [PAD] [UNK] [CLS] [SEP] [MASK] and 110 others.
MaskRules tiny_rules() {
  MaskRules rules;
  rules.mask_id = 4;
  rules.vocab_size = 115;
  rules.special_ids = {0, 1, 2, 3, 4};
  return rules;
}

void expect_batch(const nlohmann::json& wanted, const Rows& rows, MaskCollator& collator, TorchGenerator& g,
                  bool own_mask = false) {
  std::vector<int32_t> ids, begins{0};
  std::vector<uint8_t> special;
  for (const auto& sample : wanted["samples"]) {
    const auto& row = rows[sample.get<size_t>()];
    ids.insert(ids.end(), row.begin(), row.end());
    begins.push_back(static_cast<int32_t>(ids.size()));
  }
  if (own_mask)
    for (const int32_t id : ids) special.push_back(id == 2 || id == 3);
  std::vector<int32_t> labels(ids.size());
  EXPECT_EQ(collator.mask(ids, begins, g, labels, special), wanted["padded"].get<int>());
  EXPECT_EQ(fnv64(ids), wanted["ids"].get<std::string>());
  EXPECT_EQ(fnv64(labels), wanted["labels"].get<std::string>());
  const std::vector<std::vector<int32_t>> head = wanted["head"];
  const auto size = static_cast<long>(head[0].size());
  EXPECT_EQ(std::vector<int32_t>(ids.begin(), ids.begin() + size), head[0]);
  EXPECT_EQ(std::vector<int32_t>(labels.begin(), labels.begin() + size), head[1]);
}

TEST(MaskCollator, MasksBatchAfterBatchAsTransformers) {
  const nlohmann::json all = golden("../mlm/collator.json", "collated");
  for (const auto& entry : all["cases"]) {
    const nlohmann::json& c = entry["case"];
    SCOPED_TRACE(c.dump());
    MaskRules rules = tiny_rules();
    rules.probability = c.value("mlm_probability", rules.probability);
    rules.mask_replace_prob = c.value("mask_replace_prob", rules.mask_replace_prob);
    rules.random_replace_prob = c.value("random_replace_prob", rules.random_replace_prob);
    rules.pad_to_multiple_of = c.value("pad_to_multiple_of", 1);
    rules.least_length = c.value("least", 0);
    rules.pads_left = c.value("left", false);
    MaskCollator collator(rules);
    TorchGenerator g(all["seed"].get<uint64_t>());
    for (const auto& batch : entry["batches"])
      expect_batch(batch, all["rows"], collator, g, c.value("own_mask", false));
  }
}

// Two epochs with evaluations between updates: seeds that iterators draw, batches one ahead.
TEST(MaskCollator, MasksWhatTrainerDrawsInItsOrder) {
  const nlohmann::json all = golden("../mlm/collator.json", "trained");
  for (const auto& run : all["runs"]) {
    SCOPED_TRACE(run["case"].dump());
    const bool by_length = run["case"].contains("train_sampling_strategy");
    MaskCollator collator(tiny_rules());
    TorchGenerator g(all["seed"].get<uint64_t>());
    bool evaluates = false;
    for (const auto& event : run["events"]) {
      if (event.contains("of")) {
        expect_batch(event, evaluates ? all["evaluation"] : all["train"], collator, g);
      } else if (event.contains("base_seed")) {
        EXPECT_EQ(g.random63(), event["base_seed"].get<int64_t>());
        if (by_length && !evaluates) g.randperm(static_cast<int64_t>(all["train"].size()));
      } else if (!event.contains("step")) {
        evaluates = event.contains("evaluate");
      }
    }
  }
}

TEST(MaskCollator, TakesABatchWithoutTokens) {
  MaskCollator collator(tiny_rules());
  TorchGenerator g(1);
  EXPECT_EQ(collator.mask({}, std::vector<int32_t>{0}, g, {}), 0);
  EXPECT_EQ(collator.mask({}, std::vector<int32_t>{0, 0}, g, {}), 0);
  EXPECT_EQ(g.next32(), TorchGenerator(1).next32());
}

TEST(MaskCollator, RefusesWhatTheSourceRefuses) {
  const auto refused = [](auto change) {
    MaskRules rules = tiny_rules();
    change(rules);
    return message_of(ErrorCode::kUsage, [&] { MaskCollator collator(rules); });
  };
  EXPECT_TRUE(contains(refused([](MaskRules& r) { r.mask_id = -1; }), "--tokenizer_name"));
  EXPECT_TRUE(contains(refused([](MaskRules& r) { r.probability = 1.5; }), "mlm_probability"));
  EXPECT_TRUE(contains(refused([](MaskRules& r) { r.probability = std::nan(""); }), "nan"));
  EXPECT_TRUE(contains(refused([](MaskRules& r) { r.mask_replace_prob = -1; }), "mask_replace_prob"));
  EXPECT_TRUE(contains(refused([](MaskRules& r) { r.random_replace_prob = 0.3; }), "1.1"));
  MaskCollator collator(tiny_rules());
  TorchGenerator g(1);
  std::vector<int32_t> ids(3), labels(2);
  message_of(ErrorCode::kInternal, [&] { collator.mask(ids, std::vector<int32_t>{0, 3}, g, labels); });
}

}  // namespace
}  // namespace lathe
