#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "lathe/core/process_group.h"
#include "lathe/data/tokenized.h"

namespace lathe {

/// What ranks that train together exchange, apart from gradients.  Null group: there is only this process,
/// and each call returns its argument.

/// The only rank that writes.
inline bool is_main(const ProcessGroup* group) { return group == nullptr || group->rank() == 0; }
/// Whether this rank reports what is the same for all ranks.  The first rank does; the others do if
/// --log_level_replica asks for more than warnings.
bool speaks_for_all(const ProcessGroup* group, const std::string& log_level_replica);

/// Sums of a few numbers over the ranks, exact for whole numbers below 2^53.  Errors: throws the group's.
std::vector<double> sum_over(ProcessGroup* group, const std::vector<double>& mine);
/// The least of a number over the ranks.
int64_t least_over(ProcessGroup* group, int64_t mine);

/// Each rank's text, by rank.
std::vector<std::string> texts_of_all(ProcessGroup* group, const std::string& mine);
/// Rank 0's text.
std::string text_of_main(ProcessGroup* group, const std::string& mine);

/// Checks that the members of `mine` (an object) are the same on all ranks.  Errors: kUsage, on every rank,
/// naming the first member that differs, the rank, and both values.
void check_alike(ProcessGroup* group, const nlohmann::json& mine);
/// Does work that each rank does by itself and that may fail: all continue, or none.  Errors: its own; if it
/// succeeded here, that of the first other rank that failed, as kInvalidData naming that rank.
void all_or_none(ProcessGroup* group, const std::function<void()>& work);
/// For check_alike: of a command's settings, the flags that must be the same on all ranks.
nlohmann::json common_flags(const nlohmann::ordered_json& settings);
/// For check_alike: the number of samples, and a checksum of tokens, labels, targets and positions.
std::string summary(std::span<const TokenizedDataset> parts);

/// A checksum of data that is too long to send: FNV-1a over words of 4 bytes, and over the number of bytes.
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
  int64_t rows = 0;     ///< samples
  int64_t units = 0;    ///< what has scores: samples, or tokens
  int64_t correct = 0;  ///< of the units, where the task counts
  std::vector<float> logits;
};
/// The scores of all batches in their order: rank b mod size scored batch b of the data set.
std::vector<BatchScores> gather_scores(ProcessGroup* group, std::vector<BatchScores> mine);

}  // namespace lathe
