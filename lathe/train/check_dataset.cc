#include "lathe/train/check_dataset.h"

#include "lathe/core/error.h"

namespace lathe {
namespace {

/// There may be none at all.
template <typename T>
void check_count(const std::vector<T>& values, int64_t wanted, const char* name, const char* what) {
  if (!values.empty() && std::ssize(values) != wanted)
    fail(ErrorCode::kInvalidData, "{}: found {} {}, expected {}", what, values.size(), name, wanted);
}

/// Every sample lies within the arena.
void check_tokens(const TokenizedDataset& data, const char* what) {
  if (data.begins.empty())
    fail(ErrorCode::kInvalidData,
         "{}: found no begins of samples, expected one for each and the end of the last", what);
  if (data.begins[0] < 0)
    fail(ErrorCode::kInvalidData, "{}: sample 0 begins at token {}, expected 0 or more", what,
         data.begins[0]);
  for (int64_t i = 0; i < data.size(); ++i)
    if (data.begins[i] >= data.begins[i + 1])
      fail(ErrorCode::kInvalidData, "{}: sample {} has no tokens, expected at least one: is its text empty?",
           what, i);
  for (const auto& [count, name] :
       {std::pair{std::ssize(data.input_ids), "token ids"}, {std::ssize(data.type_ids), "type ids"}})
    if (count < data.tokens())
      fail(ErrorCode::kInvalidData, "{}: found {} {}, expected {}, where the last sample ends", what, count,
           name, data.tokens());
}

/// The labels that is_labelled looks for.
const char* learnt_from(Problem problem) {
  if (problem == Problem::kQuestionAnswering) return "start positions";
  return problem == Problem::kMultiLabel || problem == Problem::kRegression ? "targets" : "labels";
}

}  // namespace

void check_dataset(const TokenizedDataset& data, Problem problem, int64_t labels, const char* what) {
  if (problem == Problem::kMaskedLm)
    fail(ErrorCode::kUnsupported,
         "{}: the model is a masked LM, which learns a label for each token; a Trainer needs a head with "
         "labels for each sample: train a masked LM with a Session",
         what);
  check_tokens(data, what);
  check_count(data.labels, data.size(), "labels", what);
  check_count(data.targets, data.size() * data.num_targets, "targets", what);
  check_count(data.start_positions, data.size(), "start positions", what);
  if (data.end_positions.size() != data.start_positions.size())
    fail(ErrorCode::kInvalidData, "{}: found {} end positions, expected {} as there are start positions",
         what, data.end_positions.size(), data.start_positions.size());
  const char* found = !data.labels.empty()            ? "labels"
                      : !data.targets.empty()         ? "targets"
                      : !data.start_positions.empty() ? "start positions"
                                                      : nullptr;
  if (found != nullptr && !is_labelled(data, problem))
    fail(ErrorCode::kInvalidData, "{}: found {}, expected {} for this head", what, found,
         learnt_from(problem));
  if (!data.targets.empty() && data.num_targets != labels)
    fail(ErrorCode::kInvalidData, "{}: found {} targets for each sample, expected {}", what, data.num_targets,
         labels);
  if (problem != Problem::kSingleLabel) return;
  for (int64_t i = 0; i < std::ssize(data.labels); ++i)
    if (data.labels[i] >= labels)
      fail(ErrorCode::kInvalidData, "{}: sample {} has the label {}, expected one below {}", what, i,
           data.labels[i], labels);
}

bool is_labelled(const TokenizedDataset& data, Problem problem) {
  if (problem == Problem::kQuestionAnswering) return !data.start_positions.empty();
  if (problem == Problem::kMultiLabel || problem == Problem::kRegression) return !data.targets.empty();
  return !data.labels.empty();
}

}  // namespace lathe
