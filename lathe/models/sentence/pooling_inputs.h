#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace lathe {

/// The tensor of a data set (TokenizedDataset::tensors) that says how many of a text's first tokens are its
/// prompt, where these do not count (PoolingConfig::include_prompt).
inline constexpr const char* kPromptLength = "prompt_length";

/// What pooling reads of a packed batch on top of nn::Inputs: [B] the first token that counts and the last of
/// each row; [B · modes] the place in which each row's vectors of several modes stand, one after the other.
inline constexpr const char *kFirstCounted = "first_counted", *kLastIndex = "last_token",
                            *kPooledOrder = "pooled_order";

/// Makes these from where rows begin.
class PoolingInputs {
 public:
  /// Both must live until the next call.  prompts: kPromptLength of the rows; empty: all tokens count.
  void set(std::span<const int32_t> cu_seqlens, std::span<const int32_t> prompts);
  /// An input of so many elements, valid until the next `set`; null where pooling has none of that name.
  const std::vector<int32_t>* find(const std::string& name, int64_t size);

 private:
  std::vector<int32_t> made(const std::string& name, int64_t size) const;

  std::span<const int32_t> cu_, prompts_;
  std::map<std::string, std::vector<int32_t>> made_;
};

}  // namespace lathe
