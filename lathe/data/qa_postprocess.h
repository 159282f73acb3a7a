#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lathe/data/metrics.h"
#include "lathe/data/squad.h"

namespace lathe {

struct QaPostprocessOptions {
  int n_best_size = 20;
  int max_answer_length = 30;  ///< tokens
  bool version_2_with_negative = false;
  float null_score_diff_threshold = 0;
};

struct QaCandidate {
  float start_logit = 0, end_logit = 0;
  std::string text;
  double probability = 0;
};

/// Answers for every question, in the order of the examples.
struct QaPredictions {
  std::vector<SquadPrediction> answers;         ///< "" for no answer (v2)
  std::vector<std::vector<QaCandidate>> nbest;  ///< best first, never empty
  std::vector<float> null_odds;                 ///< v2 only: null score minus best answer's score
};

/// run_qa's way from logits to answers: the n_best_size best starts with the n_best_size best ends inside the
/// context of a window, at most max_answer_length tokens, the best n_best_size of all windows, softmax over
/// those; score of the null answer is the least over the windows.  Of equal logits the later token wins.
/// start_logits, end_logits: [features.tokens.tokens()] f32, windows one after the other.
/// A question whose windows were cut off (QaFeatures::truncate) has the only answer "empty".  It is compared
/// with the null score of the question before it, as in run_qa; for the first question, where run_qa fails,
/// that is 0.
/// Errors: kUsage for logits of another number, features without offsets, or options below 1.
QaPredictions postprocess_qa(const SquadDataset& data, const QaFeatures& features,
                             std::span<const float> start_logits, std::span<const float> end_logits,
                             const QaPostprocessOptions& options);

/// Contents of eval_predictions.json, eval_nbest_predictions.json and eval_null_odds.json, in HF's key order
/// and number format, with a newline at the end.
std::string predictions_json(const SquadDataset& data, const QaPredictions& predictions);
std::string nbest_json(const SquadDataset& data, const QaPredictions& predictions);
std::string null_odds_json(const SquadDataset& data, const QaPredictions& predictions);

}  // namespace lathe
