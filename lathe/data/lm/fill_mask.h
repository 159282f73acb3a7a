#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lathe/tokenizers/tokenizer.h"

namespace lathe {

/// A token that a model puts in place of a mask.
struct MaskFill {
  float score;             ///< its probability among all tokens
  int32_t token;           ///< id
  std::string token_text;  ///< decoded by itself: "##er" for a part of a word
  std::string sequence;    ///< the text with this token in it
};

/// Where the mask tokens stand; those of a text as of one whose masks the user wrote.
std::vector<int32_t> mask_positions(std::span<const int32_t> ids, int32_t mask_id);

/// The top_k likeliest tokens for each mask of one text, as transformers 5.23's fill-mask pipeline gives them
/// (FillMaskPipeline.postprocess), each mask by itself; of equal ones the lower id first.
/// ids: the encoded text, without padding. logits: [masks, V] row-major, in the order of the masks.
/// A sequence is decoded without special tokens where the text has one mask, and with them where it has more,
/// so that the other masks show; padding tokens are left out, also one that was filled in.
/// Errors: kInternal if the sizes do not fit together. A top_k of more than V gives V.
std::vector<std::vector<MaskFill>> fill_masks(std::span<const int32_t> ids, std::span<const float> logits,
                                              const Tokenizer& tokenizer, int top_k = 5);

}  // namespace lathe
