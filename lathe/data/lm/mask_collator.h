#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "lathe/data/torch_random.h"
#include "lathe/tokenizers/tokenizer.h"

namespace lathe {

/// Arguments of transformers' DataCollatorForLanguageModeling(mlm=True).
struct MaskRules {
  int32_t mask_id = -1;              ///< tokenizer.mask_token_id
  int vocab_size = 0;                ///< len(tokenizer): random tokens are below it
  std::vector<int32_t> special_ids;  ///< tokenizer.all_special_ids: never masked; see mask()
  double probability = 0.15;         ///< mlm_probability: of a token to be masked
  double mask_replace_prob = 0.8;    ///< of a masked one to become the mask token
  double random_replace_prob = 0.1;  ///< of a masked one to become a random token; the rest stays
  int pad_to_multiple_of = 1;        ///< run_mlm: 8 with --line_by_line --fp16, without --pad_to_max_length
  int least_length = 0;              ///< run_mlm's --pad_to_max_length with --line_by_line: max_seq_length
  bool pads_left = false;            ///< tokenizer.padding_side
};

/// What a tokenizer says of these, the rest by default.  all_special_ids: of the five that Tokenizer knows;
/// in BERT, DistilBERT, RoBERTa, XLM-R and ModernBERT bos and eos are two of them.
MaskRules mask_rules(const Tokenizer& tokenizer);

/// Masks batches as DataCollatorForLanguageModeling of transformers 5.23 does, draw by draw.
///
/// torch_mask_tokens draws four tensors of the batch's padded shape [B, T], row by row, padding included:
///   1. bernoulli(probability; 0 at special tokens and padding): the tokens that have a label
///   2. bernoulli(mask_replace_prob): which of these become the mask token
///   3. bernoulli(random_replace_prob / (1 − mask_replace_prob)): which of the others become a random token
///   4. randint(vocab_size): the random tokens
/// 3 and 4 are not drawn where mask_replace_prob is 1 or random_replace_prob is 0.
///
/// They come from torch's global generator on the CPU. What else draws from it in a run of one process, with
/// dataloader_num_workers 0 (transformers 5.23, accelerate 1.15, torch 2.15):
///   - Trainer.__init__ calls set_seed(seed), after the model was made: TorchGenerator(seed).
///   - _BaseDataLoaderIter.__init__, at the first batch of each epoch of training and of each evaluation,
///     draws a seed for workers: random63().
///   - The order of training: nothing, as SeedableRandomSampler has a generator of its own; with
///     group_by_length, LengthGroupedSampler draws randperm(samples) after that seed.
///   - Batches of training are masked one ahead (accelerate's DataLoaderShard.__iter__): batch k + 1 is drawn
///     before batch k is given out. Trainer.get_batch_samples asks for all batches of an update at once. So
///     at the end of an update the first batch of the next one is drawn already, unless the epoch ends.
///   - Trainer.evaluate, between two updates: the seed, then its batches in order; it moves the masks of all
///     later batches of training. The masks of each evaluation are others. Batches of an evaluation are
///     padded to their own longest row.
///     With group_by_length they are in its order, from a generator of their own.
///   - Dropout, if the model is on the CPU; a GPU has a generator of its own.
///   - Nothing: SequentialSampler, optimizers, schedules, saving.
/// A checkpoint's rng_state.pth is taken after the evaluation, with one batch drawn ahead. Resumed within an
/// epoch, Trainer draws the seed anew and masks the batches of the next update and one more from the
/// generator of set_seed, then loads rng_state.pth (_run_epoch, _load_rng_state): the masks differ from those
/// of a run that went on. Here they do not, with TorchGenerator::state of before the first batch not trained
/// yet. Of several processes each has a generator of its own, of the same seed, for its own batches.
class MaskCollator {
 public:
  /// Errors: kUsage without a mask token, and for a probability or a sum of probabilities outside [0, 1].
  explicit MaskCollator(MaskRules rules);

  /// Masks rows that lie one after the other: row i takes tokens [begins[i], begins[i+1]) of `ids`, [N],
  /// which change in place.  labels: [N], the token where one was masked, −100 elsewhere. special: [N], 1
  /// where no mask goes, as the tokenizer's special_tokens_mask has it. Empty: by special_ids, as the
  /// collator does without that column, which Trainer removes from the data unless
  /// --remove_unused_columns False is given. Literal special tokens and unknown ones differ between the two.
  /// Returns T.  Errors: kInternal if the sizes do not fit together.  For one thread at a time.
  int mask(std::span<int32_t> ids, std::span<const int32_t> begins, TorchGenerator& generator,
           std::span<int32_t> labels, std::span<const uint8_t> special = {});

  const MaskRules& rules() const { return rules_; }
  /// T of rows that are `longest` tokens long at most.
  int padded_length(int longest) const;

 private:
  MaskRules rules_;
  std::vector<uint8_t> fates_;  // [N] what becomes of a masked token
};

}  // namespace lathe
