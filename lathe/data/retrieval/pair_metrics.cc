#include "lathe/data/retrieval/pair_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "lathe/core/error.h"

namespace lathe {
namespace {

void check_pairs(const char* what, size_t a, size_t b, size_t least = 1) {
  if (a == b && a >= least) return;
  fail(ErrorCode::kUsage, "{}: found {} scores and {} labels, expected as many and at least {}", what, a, b,
       least);
}

void check_zero_or_one(const char* what, std::span<const int32_t> labels) {
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i] != 0 && labels[i] != 1)
      fail(ErrorCode::kUsage, "{}: label {} of pair {}: expected 0 or 1", what, labels[i], i);
}

// Python's max(): a NaN stays if it is the first, else it is passed over.
double first_greatest(double best, double value) { return value > best ? value : best; }

// <prefix><key> of the greatest value of each key of `parts`, which all have the same keys.
void add_greatest(MetricValues& out, const std::vector<MetricValues>& parts, const std::string& prefix) {
  if (parts.size() < 2) return;
  for (size_t k = 0; k < parts[0].size(); ++k) {
    double best = parts[0][k].second;
    for (const MetricValues& part : parts) best = first_greatest(best, part[k].second);
    out.emplace_back(prefix + parts[0][k].first, best);
  }
}

// Pairs, the nearest first.
struct SortedPairs {
  std::vector<float> scores;
  std::vector<int32_t> labels;
  bool more_is_nearer = true;

  bool is_last(size_t i) const { return i + 1 == scores.size(); }
  bool next_is_equal(size_t i) const { return !is_last(i) && scores[i] == scores[i + 1]; }
  // Between this pair and the next; in float, as numpy computes it.
  float threshold_after(size_t i) const {
    if (is_last(i)) return scores[i];
    const float middle = (scores[i] + scores[i + 1]) / 2;
    return middle == scores[i + 1] ? scores[i] : middle;
  }
};

SortedPairs sorted_pairs(std::span<const float> scores, std::span<const int32_t> labels,
                         bool more_is_nearer) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return more_is_nearer ? scores[a] > scores[b] : scores[a] < scores[b];
  });
  SortedPairs out{.scores = {}, .labels = {}, .more_is_nearer = more_is_nearer};
  for (const size_t i : order) out.scores.push_back(scores[i]), out.labels.push_back(labels[i]);
  return out;
}

struct BestAccuracy {
  double accuracy = 0;
  float threshold = -1;
};

BestAccuracy best_accuracy(const SortedPairs& pairs) {
  const auto n = static_cast<double>(pairs.labels.size());
  const float beyond = std::numeric_limits<float>::infinity() * (pairs.more_is_nearer ? 1.0f : -1.0f);
  int64_t negatives_left = std::count(pairs.labels.begin(), pairs.labels.end(), 0);
  int64_t positives = 0;
  BestAccuracy best{static_cast<double>(negatives_left) / n, std::nextafter(pairs.scores[0], beyond)};
  for (size_t i = 0; i < pairs.labels.size(); ++i) {
    (pairs.labels[i] == 1 ? positives : negatives_left) += pairs.labels[i] == 1 ? 1 : -1;
    if (pairs.next_is_equal(i)) continue;
    const double accuracy = static_cast<double>(positives + negatives_left) / n;
    if (accuracy > best.accuracy) best = {accuracy, pairs.threshold_after(i)};
  }
  return best;
}

struct BestF1 {
  double f1 = 0, precision = 0, recall = 0;
  float threshold = 0;
};

BestF1 best_f1(const SortedPairs& pairs) {
  const auto positives = static_cast<double>(std::count(pairs.labels.begin(), pairs.labels.end(), 1));
  BestF1 best;
  double found = 0;
  for (size_t i = 0; i < pairs.labels.size(); ++i) {
    found += pairs.labels[i];
    if (pairs.next_is_equal(i) || found == 0) continue;
    const double precision = found / static_cast<double>(i + 1), recall = found / positives;
    const double f1 = 2 * precision * recall / (precision + recall);
    if (f1 > best.f1) best = {f1, precision, recall, pairs.threshold_after(i)};
  }
  return best;
}

// accuracy … recall; scores: distances or similarities.
MetricValues threshold_metrics(const SortedPairs& pairs) {
  const BestAccuracy accuracy = best_accuracy(pairs);
  const BestF1 f1 = best_f1(pairs);
  return {{"accuracy", accuracy.accuracy},
          {"accuracy_threshold", double{accuracy.threshold}},
          {"f1", f1.f1},
          {"f1_threshold", double{f1.threshold}},
          {"precision", f1.precision},
          {"recall", f1.recall}};
}

MetricValues binary_metrics_of(const SimilarityScores& one, std::span<const int32_t> labels) {
  check_pairs("binary classification", one.scores.size(), labels.size());
  const bool distance = is_distance(one.similarity);
  std::vector<float> scores = one.scores;
  if (distance)
    for (float& score : scores) score = -score;
  MetricValues out = threshold_metrics(sorted_pairs(scores, labels, !distance));
  const auto threshold = static_cast<float>(out[3].second);
  std::vector<int32_t> predicted;
  for (const float score : scores) predicted.push_back(distance ? score <= threshold : score >= threshold);
  out.emplace_back("ap", average_precision(labels, one.scores));
  out.emplace_back("mcc", matthews_correlation(predicted, labels));
  return out;
}

}  // namespace

double pearson_of_scores(std::span<const double> a, std::span<const double> b) {
  check_pairs("pearson", a.size(), b.size(), 2);
  return pearson_of(a, b);
}

double spearman_of_scores(std::span<const double> a, std::span<const double> b) {
  check_pairs("spearman", a.size(), b.size(), 2);
  return spearman_of(a, b);
}

MetricValues similarity_metrics(Vectors a, Vectors b, std::span<const double> labels,
                                std::span<const Similarity> similarities) {
  MetricValues out;
  std::vector<MetricValues> parts;
  for (const Similarity similarity : similarities) {
    const std::vector<double> scores = pair_similarities(similarity, a, b);
    parts.push_back(
        {{"pearson", pearson_of_scores(labels, scores)}, {"spearman", spearman_of_scores(labels, scores)}});
    for (const auto& [key, value] : parts.back()) out.emplace_back(key + "_" + name_of(similarity), value);
  }
  MetricValues greatest;
  add_greatest(greatest, parts, "");
  for (const auto& [key, value] : greatest) out.emplace_back(key + "_max", value);
  return out;
}

MetricValues triplet_metrics(Vectors anchors, Vectors positives, Vectors negatives,
                             std::span<const Similarity> similarities, double margin) {
  MetricValues out;
  for (const Similarity similarity : similarities) {
    const std::vector<double> near = pair_similarities(similarity, anchors, positives);
    const std::vector<double> far = pair_similarities(similarity, anchors, negatives);
    check_pairs("triplets", near.size(), far.size());
    size_t right = 0;
    for (size_t i = 0; i < near.size(); ++i) right += near[i] > far[i] + margin;
    out.emplace_back(name_of(similarity) + std::string("_accuracy"),
                     static_cast<float>(right) / static_cast<float>(near.size()));
  }
  if (out.size() > 1) {
    double best = out[0].second;
    for (const auto& [key, value] : out) best = first_greatest(best, value);
    out.emplace_back("max_accuracy", best);
  }
  return out;
}

MetricValues binary_metrics(std::span<const SimilarityScores> scores, std::span<const int32_t> labels) {
  check_zero_or_one("binary classification", labels);
  MetricValues out;
  std::vector<MetricValues> parts;
  for (const SimilarityScores& one : scores) {
    parts.push_back(binary_metrics_of(one, labels));
    for (const auto& [key, value] : parts.back())
      out.emplace_back(std::string(name_of(one.similarity)) + "_" + key, value);
  }
  add_greatest(out, parts, "max_");
  return out;
}

MetricValues binary_metrics(Vectors a, Vectors b, std::span<const int32_t> labels,
                            std::span<const Similarity> similarities) {
  std::vector<SimilarityScores> all;
  for (const Similarity similarity : similarities) {
    const std::vector<double> scores = pair_similarities(similarity, a, b);
    all.push_back({similarity, std::vector<float>(scores.begin(), scores.end())});
  }
  return binary_metrics(all, labels);
}

MetricValues pair_score_metrics(std::span<const float> scores, std::span<const int32_t> labels) {
  check_pairs("pair classification", scores.size(), labels.size());
  check_zero_or_one("pair classification", labels);
  MetricValues out = threshold_metrics(sorted_pairs(scores, labels, true));
  out.emplace_back("average_precision", average_precision(labels, scores));
  return out;
}

MetricValues pair_class_metrics(std::span<const float> logits, std::span<const int32_t> labels) {
  if (labels.empty() || logits.size() % labels.size() != 0 || logits.size() / labels.size() < 2)
    fail(ErrorCode::kUsage,
         "pair classification: found {} scores of {} pairs, expected two or more for each pair",
         logits.size(), labels.size());
  const size_t classes = logits.size() / labels.size();
  struct Counts {
    double both = 0, predicted = 0, labelled = 0;
  };
  std::map<int32_t, Counts> counts;
  double right = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto row = logits.subspan(i * classes, classes);
    const auto predicted = static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
    counts[predicted].predicted += 1;
    counts[labels[i]].labelled += 1;
    if (predicted == labels[i]) counts[predicted].both += 1, right += 1;
  }
  double macro = 0, weighted = 0;
  for (const auto& [id, c] : counts) {
    const double f1 = 2 * c.both / (c.predicted + c.labelled);
    macro += f1, weighted += f1 * c.labelled;
  }
  const auto n = static_cast<double>(labels.size());
  return {{"f1_macro", macro / static_cast<double>(counts.size())},
          {"f1_micro", right / n},
          {"f1_weighted", weighted / n}};
}

MetricValues pair_correlation_metrics(std::span<const float> scores, std::span<const double> labels) {
  const std::vector<double> wide(scores.begin(), scores.end());
  return {{"pearson", pearson_of_scores(labels, wide)}, {"spearman", spearman_of_scores(labels, wide)}};
}

double average_precision(std::span<const int32_t> relevant, std::span<const float> scores) {
  check_pairs("average precision", scores.size(), relevant.size());
  const SortedPairs pairs = sorted_pairs(scores, relevant, true);
  const auto positives = static_cast<double>(std::count(relevant.begin(), relevant.end(), 1));
  if (positives == 0) return 0;
  double found = 0, found_before = 0, sum = 0;
  for (size_t i = 0; i < pairs.labels.size(); ++i) {
    found += pairs.labels[i];
    if (pairs.next_is_equal(i)) continue;
    sum += (found - found_before) / positives * (found / static_cast<double>(i + 1));
    found_before = found;
  }
  return sum;
}

MetricValues with_name(MetricValues values, std::string_view name) {
  if (!name.empty())
    for (auto& [key, value] : values) key = std::string(name) + "_" + key;
  return values;
}

}  // namespace lathe
