#include "lathe/data/lm/fill_mask.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lathe/core/error.h"

namespace lathe {
namespace {

std::vector<float> softmax(std::span<const float> logits) {
  const float most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - most);
  std::vector<float> out;
  for (const float x : logits)
    out.push_back(static_cast<float>(std::exp(static_cast<double>(x) - most) / sum));
  return out;
}

// Ids of the most likely tokens, the likeliest first.
std::vector<int32_t> likeliest(std::span<const float> scores, size_t count) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + static_cast<int64_t>(std::min(count, order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](int32_t a, int32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  order.erase(end, order.end());
  return order;
}

std::string sequence_with(int32_t token, int32_t position, std::span<const int32_t> ids, bool single,
                          const Tokenizer& tokenizer) {
  std::vector<int32_t> filled(ids.begin(), ids.end());
  filled[static_cast<size_t>(position)] = token;
  std::erase(filled, tokenizer.pad_id());
  return tokenizer.decode(filled, single);
}

}  // namespace

std::vector<int32_t> mask_positions(std::span<const int32_t> ids, int32_t mask_id) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] == mask_id) out.push_back(static_cast<int32_t>(i));
  return out;
}

std::vector<std::vector<MaskFill>> fill_masks(std::span<const int32_t> ids, std::span<const float> logits,
                                              const Tokenizer& tokenizer, int top_k) {
  const std::vector<int32_t> masks = mask_positions(ids, tokenizer.mask_id());
  if (logits.empty() != masks.empty() || logits.size() % std::max<size_t>(masks.size(), 1) != 0)
    fail(ErrorCode::kInternal, "fill_masks: {} logits for {} masks", logits.size(), masks.size());
  const size_t width = masks.empty() ? 0 : logits.size() / masks.size();
  std::vector<std::vector<MaskFill>> out;
  for (size_t i = 0; i < masks.size(); ++i) {
    const std::vector<float> scores = softmax(logits.subspan(i * width, width));
    auto& fills = out.emplace_back();
    for (const int32_t token : likeliest(scores, static_cast<size_t>(std::max(top_k, 0))))
      fills.push_back({scores[token], token, tokenizer.decode(std::span(&token, 1), false),
                       sequence_with(token, masks[i], ids, masks.size() == 1, tokenizer)});
  }
  return out;
}

}  // namespace lathe
