#include "lathe/data/lm/batch_masks.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "lathe/core/error.h"

namespace lathe {

BatchMasks::BatchMasks(MaskRules rules, uint64_t seed)
    : collator_(std::move(rules)), probability_(collator_.rules().probability), generator_(seed) {}

void BatchMasks::begin(int64_t grouped) {
  generator_.random63();
  if (grouped > 0) generator_.randperm(grouped);
}

void BatchMasks::mask(PackedBatch& batch, TokenRounding rounding) {
  const auto tokens = static_cast<size_t>(batch.real_tokens());
  labels_.resize(tokens);
  const std::vector<int32_t>& special = std::as_const(batch.tensors).ints("special_tokens_mask");
  special_.assign(special.begin(), special.empty() ? special.end() : special.begin() + std::ssize(labels_));
  collator_.mask(std::span(batch.input_ids).first(tokens), batch.cu_seqlens, generator_, labels_, special_);
  std::vector<int32_t>& labels = batch.tensors.ints("labels", Extent::kScored);
  labels = labels_;
  keep_scored(rounding, labels, batch, usual_scored(batch.tokens));
}

int64_t BatchMasks::usual_scored(int64_t tokens) const {
  const double mean = probability_ * static_cast<double>(tokens);
  return std::max<int64_t>(1, std::llround(mean + 3 * std::sqrt(mean * (1 - probability_))));
}

TokenizedDataset masked_lm_samples(std::vector<int32_t> ids, std::vector<int64_t> begins,
                                   const std::vector<uint8_t>& special) {
  TokenizedDataset data;
  data.tensors.ints("labels", Extent::kScored).assign(ids.size(), -100);
  if (!special.empty())
    data.tensors.ints("special_tokens_mask", Extent::kToken).assign(special.begin(), special.end());
  data.type_ids.assign(ids.size(), 0);
  data.input_ids = std::move(ids);
  data.begins = std::move(begins);
  return data;
}

std::string hex_of(std::span<const std::byte> bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<int>(byte) / 16];
    text += kDigits[std::to_integer<int>(byte) % 16];
  }
  return text;
}

std::vector<std::byte> bytes_of_hex(const std::string& text, const std::string& what) {
  std::vector<std::byte> bytes;
  for (size_t at = 0; at < text.size(); at += 2) {
    unsigned value = 0;
    const char *begin = text.data() + at, *end = begin + std::min<size_t>(2, text.size() - at);
    if (std::from_chars(begin, end, value, 16).ptr != begin + 2)
      fail(ErrorCode::kInvalidData, "{}: found '{}', expected hexadecimal digits", what,
           std::string(begin, end));
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

}  // namespace lathe
