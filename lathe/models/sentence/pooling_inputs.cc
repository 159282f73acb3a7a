#include "lathe/models/sentence/pooling_inputs.h"

#include <algorithm>

namespace lathe {

void PoolingInputs::set(std::span<const int32_t> cu_seqlens, std::span<const int32_t> prompts) {
  cu_ = cu_seqlens;
  prompts_ = prompts;
  made_.clear();
}

/// At least the last token counts.  Source: sentence-transformers' Pooling.
std::vector<int32_t> PoolingInputs::made(const std::string& name, int64_t size) const {
  std::vector<int32_t> out;
  const auto rows = static_cast<int32_t>(cu_.size()) - 1;
  for (int32_t row = 0; row < rows; ++row) {
    const auto at = static_cast<size_t>(row);
    const int32_t last = cu_[at + 1] - 1;
    if (name == kPooledOrder)
      for (int32_t place = row; place < size; place += rows) out.push_back(place);
    else if (name == kLastIndex)
      out.push_back(last);
    else
      out.push_back(prompts_.empty() ? cu_[at] : std::min(cu_[at] + prompts_[at], last));
  }
  return out;
}

const std::vector<int32_t>* PoolingInputs::find(const std::string& name, int64_t size) {
  if (name != kFirstCounted && name != kLastIndex && name != kPooledOrder) return nullptr;
  const auto [it, is_new] = made_.try_emplace(name);
  if (is_new) it->second = made(name, size);
  return &it->second;
}

}  // namespace lathe
