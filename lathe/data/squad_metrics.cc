#include <algorithm>
#include <unordered_map>

#include "lathe/core/error.h"
#include "lathe/data/metrics.h"
#include "lathe/text/text.h"
#include "lathe/text/unicode.h"

namespace lathe {
namespace {

bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// Replaces a, an and the by a blank where they stand as words: between characters that are no `\w`.
std::string remove_articles(const std::string& text) {
  const std::vector<char32_t> code_points = decode_utf8(text);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < code_points.size();) {
    size_t end = i;
    while (end < code_points.size() && is_word_character(code_points[end])) ++end;
    if (end == i) {
      unicode::append_utf8(code_points[i++], &out);
      continue;
    }
    const std::u32string_view word(&code_points[i], end - i);
    if (word == U"a" || word == U"an" || word == U"the")
      out.push_back(' ');
    else
      for (const char32_t c : word) unicode::append_utf8(c, &out);
    i = end;
  }
  return out;
}

double f1_of(const std::string& prediction, const std::string& gold, bool empty_equals_empty) {
  const auto predicted = split_words(prediction), wanted = split_words(gold);
  if (empty_equals_empty && (predicted.empty() || wanted.empty())) return predicted.empty() && wanted.empty();
  std::unordered_map<std::string_view, int> left;
  for (const auto word : wanted) ++left[word];
  int same = 0;
  for (const auto word : predicted) {
    const auto found = left.find(word);
    if (found != left.end() && found->second-- > 0) ++same;
  }
  if (same == 0) return 0;
  const double precision = static_cast<double>(same) / static_cast<double>(predicted.size());
  const double recall = static_cast<double>(same) / static_cast<double>(wanted.size());
  return 2 * precision * recall / (precision + recall);
}

struct Score {
  double exact = 0, f1 = 0;
};

// The best over the gold answers.  v2: golds that are nothing after normalising do not count, no gold at all
// asks for the empty answer.
Score score_of(const SquadExample& example, const SquadPrediction& prediction, bool version_2) {
  Score best;
  if (!prediction.has_value) return best;
  const std::string answer = normalize_answer(prediction.text);
  std::vector<std::string> golds;
  for (const SquadAnswer& gold : example.answers) golds.push_back(normalize_answer(gold.text));
  if (version_2) {
    std::erase(golds, "");
    if (golds.empty()) golds.emplace_back();
  }
  for (const std::string& gold : golds) {
    best.exact = std::max(best.exact, answer == gold ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, f1_of(answer, gold, version_2));
  }
  return best;
}

void check_predictions(const SquadDataset& data, std::span<const SquadPrediction> predictions) {
  if (predictions.size() != data.examples.size() || predictions.empty())
    fail(ErrorCode::kUsage, "{}: found {} predictions for {} questions, expected one for each", data.origin,
         predictions.size(), data.examples.size());
}

// 100 times the sum over the questions for which `counts` holds, per question; total in their number.
template <typename Counts>
void add_part(const std::vector<Score>& scores, const std::string& prefix, const Counts& counts,
              MetricValues& out) {
  double exact = 0, f1 = 0, total = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!counts(i)) continue;
    exact += scores[i].exact, f1 += scores[i].f1, total += 1;
  }
  if (total == 0) return;
  out.emplace_back(prefix + "exact", 100.0 * exact / total);
  out.emplace_back(prefix + "f1", 100.0 * f1 / total);
  out.emplace_back(prefix + "total", total);
}

// The best score over all thresholds on the probability of no answer.  All probabilities are 0, so the scan
// goes over the questions in file order and any best one has the threshold 0.
template <typename Value>
double best_score(const SquadDataset& data, std::span<const SquadPrediction> predictions,
                  const Value& value) {
  double current = 0;
  for (const SquadExample& example : data.examples) current += example.answers.empty() ? 1 : 0;
  double best = current;
  for (size_t i = 0; i < predictions.size(); ++i) {
    if (!predictions[i].has_value) continue;
    const bool answerable = !data.examples[i].answers.empty();
    current += answerable ? value(i) : predictions[i].text.empty() ? 0 : -1;
    best = std::max(best, current);
  }
  return 100.0 * best / static_cast<double>(predictions.size());
}

}  // namespace

std::string normalize_answer(std::string_view text) {
  std::string lowered = to_lower(text);
  std::erase_if(lowered, is_ascii_punctuation);
  const std::string plain = remove_articles(lowered);
  std::string out;
  for (const std::string_view word : split_words(plain)) {
    if (!out.empty()) out.push_back(' ');
    out += word;
  }
  return out;
}

double squad_f1(const SquadExample& example, const SquadPrediction& prediction, bool version_2) {
  return score_of(example, prediction, version_2).f1;
}

MetricValues squad_v1_metrics(const SquadDataset& data, std::span<const SquadPrediction> predictions) {
  check_predictions(data, predictions);
  double exact = 0, f1 = 0;
  for (size_t i = 0; i < predictions.size(); ++i) {
    const Score score = score_of(data.examples[i], predictions[i], false);
    exact += score.exact, f1 += score.f1;
  }
  const auto total = static_cast<double>(predictions.size());
  return {{"exact_match", 100.0 * exact / total}, {"f1", 100.0 * f1 / total}};
}

MetricValues squad_v2_metrics(const SquadDataset& data, std::span<const SquadPrediction> predictions) {
  check_predictions(data, predictions);
  std::vector<Score> scores;
  for (size_t i = 0; i < predictions.size(); ++i)
    scores.push_back(score_of(data.examples[i], predictions[i], true));
  const auto answerable = [&](size_t i) { return !data.examples[i].answers.empty(); };
  MetricValues out;
  add_part(
      scores, "", [](size_t) { return true; }, out);
  add_part(scores, "HasAns_", answerable, out);
  add_part(
      scores, "NoAns_", [&](size_t i) { return !answerable(i); }, out);
  out.emplace_back("best_exact", best_score(data, predictions, [&](size_t i) { return scores[i].exact; }));
  out.emplace_back("best_exact_thresh", 0.0);
  out.emplace_back("best_f1", best_score(data, predictions, [&](size_t i) { return scores[i].f1; }));
  out.emplace_back("best_f1_thresh", 0.0);
  return out;
}

}  // namespace lathe
