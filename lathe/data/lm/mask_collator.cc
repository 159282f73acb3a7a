#include "lathe/data/lm/mask_collator.h"

#include <algorithm>
#include <utility>

#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"

namespace lathe {
namespace {

constexpr int32_t kNoLabel = -100;
enum Fate : uint8_t { kStays, kBecomesMask, kBecomesRandom };

void check_probability(const char* name, double value) {
  if (!(value >= 0 && value <= 1))
    fail(ErrorCode::kUsage, "{}: expected a probability, 0 to 1, found {}", name, value);
}

// Calls visit(token) for all cells of the padded batch, row by row; -1 for padding.
template <typename Visit>
void for_each_cell(std::span<const int32_t> begins, int width, bool pads_left, Visit visit) {
  for (size_t row = 0; row + 1 < begins.size(); ++row) {
    const int64_t begin = begins[row], end = begins[row + 1];
    const int64_t padding = width - (end - begin);
    if (pads_left)
      for (int64_t i = 0; i < padding; ++i) visit(-1);
    for (int64_t i = begin; i < end; ++i) visit(i);
    if (!pads_left)
      for (int64_t i = 0; i < padding; ++i) visit(-1);
  }
}

}  // namespace

MaskRules mask_rules(const Tokenizer& tokenizer) {
  MaskRules rules;
  rules.mask_id = tokenizer.mask_id();
  rules.vocab_size = tokenizer.vocab_size();
  rules.pads_left = tokenizer.pads_left();
  for (const int32_t id :
       {tokenizer.cls_id(), tokenizer.sep_id(), tokenizer.pad_id(), tokenizer.unk_id(), tokenizer.mask_id()})
    if (id >= 0) rules.special_ids.push_back(id);
  return rules;
}

MaskCollator::MaskCollator(MaskRules rules) : rules_(std::move(rules)) {
  if (rules_.mask_id < 0)
    fail(ErrorCode::kUsage,
         "masked language modeling needs a tokenizer with a mask token, and this one has none: name another "
         "with --tokenizer_name, or add \"mask_token\" to its tokenizer_config.json");
  check_probability("mlm_probability", rules_.probability);
  check_probability("mask_replace_prob", rules_.mask_replace_prob);
  check_probability("random_replace_prob", rules_.random_replace_prob);
  check_probability("mask_replace_prob + random_replace_prob",
                    rules_.mask_replace_prob + rules_.random_replace_prob);
}

int MaskCollator::padded_length(int longest) const {
  return std::max(rules_.least_length, round_up(longest, rules_.pad_to_multiple_of));
}

int MaskCollator::mask(std::span<int32_t> ids, std::span<const int32_t> begins, TorchGenerator& generator,
                       std::span<int32_t> labels, std::span<const uint8_t> special) {
  if (begins.empty() || static_cast<size_t>(begins.back()) != ids.size() || labels.size() != ids.size() ||
      (!special.empty() && special.size() != ids.size()))
    fail(ErrorCode::kInternal, "masks: {} tokens, {} labels, {} marks of special tokens and rows up to {}",
         ids.size(), labels.size(), special.size(), begins.empty() ? -1 : begins.back());
  int longest = 0;
  for (size_t row = 0; row + 1 < begins.size(); ++row)
    longest = std::max(longest, begins[row + 1] - begins[row]);
  const int width = padded_length(longest);
  const auto& never = rules_.special_ids;
  const auto is_special = [&](int64_t i) {
    return special.empty() ? std::find(never.begin(), never.end(), ids[i]) != never.end() : special[i] != 0;
  };
  const auto probability = static_cast<float>(rules_.probability);
  for_each_cell(begins, width, rules_.pads_left, [&](int64_t i) {
    const bool masked = generator.bernoulli(i < 0 || is_special(i) ? 0 : probability);
    if (i >= 0) labels[i] = masked ? ids[i] : kNoLabel;
  });
  fates_.assign(ids.size(), kStays);
  const auto draw_fate = [&](float probability_of, Fate fate) {
    for_each_cell(begins, width, rules_.pads_left, [&](int64_t i) {
      if (generator.bernoulli(probability_of) && i >= 0 && labels[i] != kNoLabel && fates_[i] == kStays)
        fates_[i] = fate;
    });
  };
  draw_fate(static_cast<float>(rules_.mask_replace_prob), kBecomesMask);
  for (size_t i = 0; i < ids.size(); ++i)
    if (fates_[i] == kBecomesMask) ids[i] = rules_.mask_id;
  if (rules_.mask_replace_prob == 1 || rules_.random_replace_prob == 0) return width;
  draw_fate(static_cast<float>(rules_.random_replace_prob / (1 - rules_.mask_replace_prob)), kBecomesRandom);
  for_each_cell(begins, width, rules_.pads_left, [&](int64_t i) {
    int64_t word = 0;
    generator.randint(rules_.vocab_size, {&word, 1});
    if (i >= 0 && fates_[i] == kBecomesRandom) ids[i] = static_cast<int32_t>(word);
  });
  return width;
}

}  // namespace lathe
