#pragma once
#include <string>
#include <vector>

#include "lathe/core/token_rounding.h"
#include "lathe/data/batch.h"
#include "lathe/data/lm/mask_collator.h"

namespace lathe {

/// The masks of a run: what MaskCollator draws, in the order in which transformers' Trainer draws it, for
/// packed batches.  Of data whose labels say nothing ("labels" for all tokens, −100) a batch gets those of
/// its masked tokens.  One generator serves training and evaluation, as torch's does.  For one thread at a
/// time.
class BatchMasks {
 public:
  /// Errors: those of MaskCollator.
  BatchMasks(MaskRules rules, uint64_t seed);

  /// An iteration over data begins: an epoch of training, or an evaluation.  grouped: the samples of training
  /// data that are grouped by length, whose order transformers draws here; 0: they are not.
  void begin(int64_t grouped = 0);
  /// Masks the tokens of a batch and gives it labels and their places.
  void mask(PackedBatch& batch, TokenRounding rounding);
  /// M of a batch of N tokens, but of one in about a thousand: batches of one size run one program.
  int64_t usual_scored(int64_t tokens) const;

  /// The generator, as MT19937's bytes.
  std::vector<std::byte> state() const { return generator_.state(); }
  /// Errors: kInvalidData.
  void restore(std::span<const std::byte> state) { generator_.restore(state); }

 private:
  MaskCollator collator_;
  double probability_;
  TorchGenerator generator_;
  std::vector<int32_t> labels_;
  std::vector<uint8_t> special_;
};

/// A data set of samples without labels, as BatchMasks takes it. special: [tokens] special_tokens_mask, where
/// it decides what is never masked; empty: the ids decide.
TokenizedDataset masked_lm_samples(std::vector<int32_t> ids, std::vector<int64_t> begins,
                                   const std::vector<uint8_t>& special);

/// Bytes as text, two hexadecimal digits each, and back.  Errors: kInvalidData, naming `what`.
std::string hex_of(std::span<const std::byte> bytes);
std::vector<std::byte> bytes_of_hex(const std::string& text, const std::string& what);

}  // namespace lathe
