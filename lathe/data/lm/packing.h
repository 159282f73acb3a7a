#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lathe {

/// How samples become packed ones, by the names of TRL's --packing_strategy.
enum class PackingStrategy {
  kBfd,       ///< whole samples, the longest first, each where it leaves the least room; longer ones are cut
  kBfdSplit,  ///< the same, but the rest of longer ones becomes samples, too
  kWrapped,   ///< one after the other, cut wherever the length is reached
};

/// Tokens [begin, end) of a sample.
struct PackedPiece {
  int64_t sample, begin, end;
  bool operator==(const PackedPiece&) const = default;
};

/// What is in each packed sample, in the order of TRL's pack_dataset.  Of kBfd and kBfdSplit each piece is a
/// row of its own, which sees no other; of kWrapped all of them are one row.  Samples without tokens are left
/// out.  lengths: tokens of each sample.  length: of a packed sample, at most.  As there, each 1,000 samples
/// are packed by themselves.  Errors: kUsage for a length below 1.
/// Source: trl 1.16 pack_dataset; Ding et al. 2024 (arXiv 2404.10830).
std::vector<std::vector<PackedPiece>> pack_samples(std::span<const int64_t> lengths, int64_t length,
                                                   PackingStrategy strategy);

}  // namespace lathe
