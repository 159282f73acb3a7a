#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "lathe/core/token_rounding.h"
#include "lathe/data/tokenized.h"

namespace lathe {

/// The tensor of a batch that says where samples begin.
inline constexpr const char* kFirstRows = "first_rows";

/// A micro-batch without padding between rows: the tokens of all rows one after the other.  Tokens from
/// cu_seqlens[rows] to `tokens` fill up the size, belong to no row and hold 0 in each list of tokens.
struct PackedBatch {
  int rows = 0;    ///< B
  int tokens = 0;  ///< N, as PackOptions::rounding has it
  int longest_row = 0;
  int scored = 0;       ///< M: tokens that are scored, as PackOptions::rounding has it; 0: no such tensor
  int real_scored = 0;  ///< without the filling, which is token 0 with the label −100

  std::vector<int32_t> input_ids, token_type_ids;  ///< [N]
  std::vector<int32_t> position_ids;               ///< [N] from 0 in every row
  std::vector<int32_t> sample_ids;  ///< [N] number of the token's row in the global batch (dropout)
  std::vector<int32_t> cu_seqlens;  ///< [B+1] where rows begin
  std::vector<int32_t> cls_index;   ///< [B] first token of every row

  /// Those of the data set, −100 in the filling: [S · width], [N · width] or [M]; scored_index [M]; and, of
  /// data whose samples have several rows, first_rows [S+1].
  TensorList tensors;
  std::vector<int32_t> samples;  ///< [S] which samples of the data set they are; S = B where each has a row
  /// [ranks · N] input_ids of the batches that all ranks have at the same time, by rank; empty if one process
  /// trains by itself.
  std::vector<int32_t> all_input_ids;

  /// S
  int sample_count() const {
    const auto& first_rows = tensors.ints(kFirstRows);
    return first_rows.empty() ? rows : static_cast<int>(first_rows.size()) - 1;
  }
  /// Whether samples have several rows.
  bool has_several_rows() const { return !tensors.ints(kFirstRows).empty(); }
  /// Tokens of rows, without the filling.
  int real_tokens() const { return cu_seqlens.empty() ? 0 : cu_seqlens.back(); }
};

struct PackOptions {
  TokenRounding rounding;
  /// Ordinal of the batch's first sample in the global batch of this update: over all ranks and accumulated
  /// micro-batches, (micro_step · world_size + rank) · batch_size.
  int first_ordinal = 0;
  int64_t least_tokens = 0;  ///< packed as if there were at least this many
};

/// Packs samples in the order given.  Reuses out's memory: no allocation once it has seen its largest batch.
/// Errors: kUsage for an index outside the data set or a rounding to less than 1.
void pack_batch(const TokenizedDataset& data, std::span<const int32_t> samples, const PackOptions& options,
                PackedBatch& out);

/// The samples [first, first + count) of a batch whose samples have several rows, as a batch: rows keep their
/// numbers in the global batch, and so their dropout.
void part_of_batch(const PackedBatch& batch, int first, int count, TokenRounding rounding, PackedBatch& out);

/// Keeps of `labels`, [N], those of tokens that have one, and the places of these in the batch.  M is at
/// least `least`.
void keep_scored(TokenRounding rounding, std::vector<int32_t>& labels, PackedBatch& out, int64_t least = 1);

/// Fills all_input_ids of a packed batch from the samples of each rank's.  They are of one size: N of `out`.
/// Errors: kInternal if a rank has more tokens.
void pack_all_input_ids(const TokenizedDataset& data, std::span<const std::vector<int32_t>> samples,
                        PackedBatch& out);

}  // namespace lathe
