#include "lathe/data/qa_postprocess.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lathe/core/error.h"
#include "lathe/text/python_format.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

// A span of the context with its logits; the null answer is the span {0, 0}.
struct Span {
  int32_t begin = 0, end = 0;
  float score = 0, start_logit = 0, end_logit = 0;
};

struct Window {
  std::span<const float> start, end;
  std::span<const std::array<int32_t, 2>> offsets;
};

// a > b, NaN above all numbers as numpy sorts it.
bool above(float a, float b) { return a > b || (std::isnan(a) && !std::isnan(b)); }

// Indices of the n greatest values, greatest first, of equal ones the later first.
void find_best(std::span<const float> values, int n, std::vector<int32_t>& out) {
  out.resize(values.size());
  std::iota(out.begin(), out.end(), 0);
  const auto count = std::min<size_t>(static_cast<size_t>(n), values.size());
  std::partial_sort(out.begin(), out.begin() + static_cast<long>(count), out.end(),
                    [&](int32_t a, int32_t b) {
                      return above(values[a], values[b]) || (!above(values[b], values[a]) && a > b);
                    });
  out.resize(count);
}

// numpy's float32 sum of a short array: eight running sums, then the rest.
float pairwise_sum(const std::vector<float>& values) {
  if (values.size() < 8) return std::accumulate(values.begin(), values.end(), 0.0f);
  float r[8];
  std::copy_n(values.begin(), 8, r);
  size_t i = 8;
  for (; i + 8 <= values.size(); i += 8)
    for (size_t j = 0; j < 8; ++j) r[j] += values[i + j];
  float sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  for (; i < values.size(); ++i) sum += values[i];
  return sum;
}

class Postprocessor {
 public:
  Postprocessor(const SquadDataset& data, const QaPostprocessOptions& options)
      : data_(data), options_(options) {}

  void begin_question() {
    spans_.clear();
    has_window_ = false;
  }

  void add_window(const Window& window) {
    const float null_score = window.start[0] + window.end[0];
    if (!has_window_ || null_.score > null_score) null_ = {0, 0, null_score, window.start[0], window.end[0]};
    has_window_ = true;
    find_best(window.start, options_.n_best_size, starts_);
    find_best(window.end, options_.n_best_size, ends_);
    for (const int32_t s : starts_) {
      if (window.offsets[s][0] < 0) continue;
      for (const int32_t e : ends_) {
        if (window.offsets[e][0] < 0 || e < s || e - s + 1 > options_.max_answer_length) continue;
        spans_.push_back({window.offsets[s][0], window.offsets[e][1], window.start[s] + window.end[e],
                          window.start[s], window.end[e]});
      }
    }
  }

  void finish_question(const SquadExample& example, QaPredictions& out) {
    const bool may_be_null = options_.version_2_with_negative && has_window_;
    if (may_be_null) spans_.push_back(null_);
    std::stable_sort(spans_.begin(), spans_.end(),
                     [](const Span& a, const Span& b) { return above(a.score, b.score); });
    if (spans_.size() > static_cast<size_t>(options_.n_best_size)) spans_.resize(options_.n_best_size);
    const auto is_null = [](const Span& s) { return s.begin == 0 && s.end == 0; };
    if (may_be_null && std::none_of(spans_.begin(), spans_.end(), is_null)) spans_.push_back(null_);

    std::vector<QaCandidate> candidates;
    const std::string& context = data_.context_of(example);
    for (const Span& s : spans_)
      candidates.push_back(
          {s.start_logit, s.end_logit, std::string(slice_code_points(context, s.begin, s.end)), 0});
    const bool faked = candidates.empty() || (candidates.size() == 1 && candidates[0].text.empty());
    if (faked) {
      candidates.insert(candidates.begin(), QaCandidate{0, 0, "empty", 0});
      spans_.insert(spans_.begin(), Span{});
    }
    set_probabilities(candidates, faked);
    choose(candidates, out);
    out.nbest.push_back(std::move(candidates));
  }

 private:
  // Softmax in float32 as numpy does it; the made-up answer's Python float makes numpy compute in double.
  void set_probabilities(std::vector<QaCandidate>& candidates, bool in_double) const {
    float greatest = spans_[0].score;
    for (const Span& s : spans_) greatest = std::max(greatest, s.score);
    if (in_double) {
      double sum = 0;
      for (const Span& s : spans_) sum += std::exp(double{s.score} - double{greatest});
      for (size_t i = 0; i < spans_.size(); ++i)
        candidates[i].probability = std::exp(double{spans_[i].score} - double{greatest}) / sum;
      return;
    }
    std::vector<float> weights;
    for (const Span& s : spans_)
      weights.push_back(static_cast<float>(std::exp(static_cast<double>(s.score - greatest))));
    const float sum = pairwise_sum(weights);
    for (size_t i = 0; i < weights.size(); ++i) candidates[i].probability = double{weights[i] / sum};
  }

  void choose(const std::vector<QaCandidate>& candidates, QaPredictions& out) const {
    if (!options_.version_2_with_negative) {
      out.answers.push_back({candidates[0].text});
      return;
    }
    const auto best = std::find_if(candidates.begin(), candidates.end(),
                                   [](const QaCandidate& c) { return !c.text.empty(); });
    if (best == candidates.end()) {  // only spans without text: nothing stands against the null answer
      out.null_odds.push_back(null_.score);
      out.answers.push_back({""});
      return;
    }
    const float odds = null_.score - best->start_logit - best->end_logit;
    out.null_odds.push_back(odds);
    out.answers.push_back({odds > options_.null_score_diff_threshold ? "" : best->text});
  }

  const SquadDataset& data_;
  const QaPostprocessOptions& options_;
  std::vector<Span> spans_;
  Span null_;  // the last one of any question
  bool has_window_ = false;
  std::vector<int32_t> starts_, ends_;
};

void check(const SquadDataset& data, const QaFeatures& features, std::span<const float> start_logits,
           std::span<const float> end_logits, const QaPostprocessOptions& options) {
  const auto tokens = static_cast<size_t>(features.tokens.tokens());
  if (start_logits.size() != tokens || end_logits.size() != tokens || features.offsets.size() != tokens)
    fail(ErrorCode::kUsage,
         "{}: found {} start and {} end logits and {} offsets for {} tokens, expected as many", data.origin,
         start_logits.size(), end_logits.size(), features.offsets.size(), tokens);
  if (options.n_best_size < 1 || options.max_answer_length < 1)
    fail(ErrorCode::kUsage, "n_best_size and max_answer_length: found {} and {}, expected at least 1",
         options.n_best_size, options.max_answer_length);
}

// One JSON object, indented by four: key of an example -> text of the value.
template <typename Value>
std::string object_json(const SquadDataset& data, size_t count, const Value& value) {
  if (count == 0) return "{}\n";
  std::string out = "{\n";
  for (size_t i = 0; i < count; ++i) {
    out += "    " + python_json_string(data.examples[i].id) + ": " + value(i);
    out += i + 1 < count ? ",\n" : "\n";
  }
  return out + "}\n";
}

}  // namespace

QaPredictions postprocess_qa(const SquadDataset& data, const QaFeatures& features,
                             std::span<const float> start_logits, std::span<const float> end_logits,
                             const QaPostprocessOptions& options) {
  check(data, features, start_logits, end_logits, options);
  Postprocessor processor(data, options);
  QaPredictions out;
  size_t sample = 0;
  for (size_t i = 0; i < data.examples.size(); ++i) {
    processor.begin_question();
    for (; sample < features.example.size() && features.example[sample] == static_cast<int32_t>(i);
         ++sample) {
      const auto begin = static_cast<size_t>(features.tokens.begins[sample]);
      const auto length = static_cast<size_t>(features.tokens.length(static_cast<int64_t>(sample)));
      processor.add_window({start_logits.subspan(begin, length), end_logits.subspan(begin, length),
                            std::span(features.offsets).subspan(begin, length)});
    }
    processor.finish_question(data.examples[i], out);
  }
  return out;
}

std::string predictions_json(const SquadDataset& data, const QaPredictions& predictions) {
  return object_json(data, predictions.answers.size(),
                     [&](size_t i) { return python_json_string(predictions.answers[i].text); });
}

std::string nbest_json(const SquadDataset& data, const QaPredictions& predictions) {
  return object_json(data, predictions.nbest.size(), [&](size_t i) {
    std::string out = "[\n";
    const auto& list = predictions.nbest[i];
    for (size_t k = 0; k < list.size(); ++k) {
      const QaCandidate& c = list[k];
      const std::string indent = "            ", next = ",\n" + indent;
      const std::string start = "\"start_logit\": " + python_float(double{c.start_logit});
      const std::string end = "\"end_logit\": " + python_float(double{c.end_logit});
      const std::string text = "\"text\": " + python_json_string(c.text);
      out += "        {\n" + indent + start + next + end + next + text + next +
             "\"probability\": " + python_float(c.probability);
      out += k + 1 < list.size() ? "\n        },\n" : "\n        }\n";
    }
    return out + "    ]";
  });
}

std::string null_odds_json(const SquadDataset& data, const QaPredictions& predictions) {
  return object_json(data, predictions.null_odds.size(),
                     [&](size_t i) { return python_float(double{predictions.null_odds[i]}); });
}

}  // namespace lathe
