#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "lathe/core/process_group.h"
#include "lathe/data/tokenized.h"

namespace lathe {

/// What ranks that train together tell each other beside gradients.  group null: this process is alone, and
/// each call gives what it was given.

/// The one rank that writes.
inline bool is_main(const ProcessGroup* group) { return group == nullptr || group->rank() == 0; }
/// Whether this one says what is the same for all ranks: the first does, and where --log_level_replica asks
/// for more than warnings, so do the others.
bool speaks_for_all(const ProcessGroup* group, const std::string& log_level_replica);

/// Sums of a few numbers over the ranks, exact for whole numbers below 2^53.  Errors: throws the group's.
std::vector<double> sum_over(ProcessGroup* group, const std::vector<double>& mine);
/// The least of a number over the ranks.
int64_t least_over(ProcessGroup* group, int64_t mine);

/// Rank 0's text.
std::string text_of_main(ProcessGroup* group, const std::string& mine);

/// Errors: kUsage, on every rank, where the members of `mine` (an object) are not the same on all of them:
/// names the first such member, the rank, and both values.
void check_alike(ProcessGroup* group, const nlohmann::json& mine);
/// Does what each rank does by itself and may fail at: all go on, or none.  Errors: its own; where it went
/// well here, that of the first other rank, which is named, as kInvalidData.
void all_or_none(ProcessGroup* group, const std::function<void()>& work);
/// For check_alike, of a command's settings: the flags that must be the same on all ranks.
nlohmann::json common_flags(const nlohmann::ordered_json& settings);
/// For check_alike: how many samples, and a checksum of tokens, labels, targets and positions.
std::string summary(std::span<const TokenizedDataset> parts);

/// Of what is too much to be told: FNV-1a over words of 4 bytes, and over how many bytes there are.
class Checksum {
 public:
  Checksum& add(std::span<const std::byte> bytes);
  template <typename Values>
  Checksum& add(const Values& values) {
    return add(std::as_bytes(std::span(values)));
  }
  std::string text() const;  ///< "the checksum 0123456789abcdef"

 private:
  uint64_t sum_ = 0xcbf29ce484222325;
};

/// Scores of one batch of an evaluation.
struct BatchScores {
  double loss = 0;
  int64_t rows = 0;   ///< samples
  int64_t units = 0;  ///< what has scores: samples, or tokens
  std::vector<float> logits;
};
/// Those of all batches in their order: batch b of the data set was scored by rank b mod size.
std::vector<BatchScores> gather_scores(ProcessGroup* group, std::vector<BatchScores> mine);

}  // namespace lathe
