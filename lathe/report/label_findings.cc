#include "lathe/report/label_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lathe {

std::string prediction_text(const LabelSet& set, const Predictions& p, size_t row) {
  if (!is_predicted(p, row)) return "nan";
  const float* logits = &p.logits[row * static_cast<size_t>(p.columns)];
  if (set.kind == LabelKind::kRegression) return fmt::format("{:3.3f}", logits[0]);
  if (set.kind == LabelKind::kClasses)
    return set.names[static_cast<size_t>(std::max_element(logits, logits + p.columns) - logits)];
  std::string names;
  for (int64_t k = 0; k < p.columns; ++k)
    if (logits[k] > 0) names += (names.empty() ? "" : ",") + set.names[static_cast<size_t>(k)];
  return names;
}

namespace {

const std::vector<int32_t>& classes_of(const TokenizedDataset& data) { return data.tensors.ints("labels"); }
/// Of numbers and of several labels, [samples · columns].
const std::vector<float>& targets_of(const TokenizedDataset& data) { return data.tensors.floats("labels"); }

/// The label of a sample as people read it.
std::string label_text(const LabelSet& set, const TokenizedDataset& data, size_t row) {
  if (set.kind == LabelKind::kRegression) return fmt::format("{:3.3f}", targets_of(data)[row]);
  if (set.kind == LabelKind::kClasses) return set.names[static_cast<size_t>(classes_of(data)[row])];
  std::string names;
  for (size_t k = 0; k < set.names.size(); ++k)
    if (targets_of(data)[row * set.names.size() + k] > 0.5f)
      names += (names.empty() ? "" : ",") + set.names[k];
  return names;
}

/// Calls f(sample, label) for every label of [0, shown) that a sample has.
template <typename F>
void each_label(const LabelSet& set, const TokenizedDataset& data, size_t shown, const F& f) {
  const size_t names = set.names.size();
  for (size_t row = 0; row < static_cast<size_t>(data.size()); ++row) {
    if (set.kind == LabelKind::kClasses) {
      const auto label = static_cast<size_t>(classes_of(data)[row]);
      if (label < shown) f(row, label);
      continue;
    }
    for (size_t k = 0; k < shown; ++k)
      if (targets_of(data)[row * names + k] > 0.5f) f(row, k);
  }
}

/// Of the labels [0, shown) of classes or of several labels.
std::vector<LabelCounts> counts_of(const LabelSet& set, const TokenizedDataset& data, const Predictions& p,
                                   const TokenizedDataset* train, size_t shown) {
  std::vector<LabelCounts> counts(shown);
  const bool classes = set.kind == LabelKind::kClasses;
  const std::vector<int32_t> best = classes ? best_classes(p) : std::vector<int32_t>();
  const auto is_predicted = [&](size_t row, size_t k) {
    return classes ? best[row] == static_cast<int32_t>(k)
                   : p.logits[row * static_cast<size_t>(p.columns) + k] > 0;
  };
  each_label(set, data, shown, [&](size_t row, size_t k) {
    ++counts[k].samples;
    counts[k].right += is_predicted(row, k);
  });
  for (size_t row = 0; row < static_cast<size_t>(data.size()); ++row)
    for (size_t k = 0; k < shown; ++k) counts[k].predicted += is_predicted(row, k);
  if (train != nullptr) each_label(set, *train, shown, [&](size_t, size_t k) { ++counts[k].trained; });
  return counts;
}

/// How wrong a prediction is: the loss of a class, the distance of a number, the labels that differ.
double badness_of(const LabelSet& set, const TokenizedDataset& data, const Predictions& p, size_t row) {
  const size_t columns = static_cast<size_t>(p.columns);
  const std::span<const float> logits(&p.logits[row * columns], columns);
  if (set.kind == LabelKind::kClasses)
    return cross_entropy_of(logits, static_cast<size_t>(classes_of(data)[row]));
  if (set.kind == LabelKind::kRegression) return std::abs(logits[0] - targets_of(data)[row]);
  double differ = 0;
  for (size_t k = 0; k < columns; ++k)
    differ += (logits[k] > 0) != (targets_of(data)[row * columns + k] > 0.5f);
  return differ;
}

/// Of classes.
std::optional<Calibration> calibration(const TokenizedDataset& data, const Predictions& p) {
  const std::vector<int32_t> best = best_classes(p);
  const size_t columns = static_cast<size_t>(p.columns);
  std::vector<double> confidence(best.size());
  std::vector<bool> right(best.size());
  for (size_t i = 0; i < best.size(); ++i) {
    const std::span<const float> logits(&p.logits[i * columns], columns);
    confidence[i] = std::exp(-cross_entropy_of(logits, static_cast<size_t>(best[i])));
    right[i] = best[i] == classes_of(data)[i];
  }
  return calibration_of(confidence, right);
}

}  // namespace

Findings label_findings(const LabelSet& set, const std::string& origin, const TokenizedDataset& data,
                        const Predictions& p, const std::function<std::string(size_t)>& text,
                        const TokenizedDataset* train) {
  constexpr size_t kWorst = 20, kMostLabels = 100;
  const bool classes = set.kind == LabelKind::kClasses;
  const size_t samples = static_cast<size_t>(data.size());
  Findings findings{.data = origin};
  if (set.kind == LabelKind::kRegression && p.columns != 1) return findings;  // several numbers a sample
  if (classes ? classes_of(data).size() < samples ||
                    std::count(classes_of(data).begin(), classes_of(data).end(), -1) > 0
              : targets_of(data).empty())
    return findings;
  if (set.kind != LabelKind::kRegression) {
    const size_t shown = std::min(set.names.size(), kMostLabels);
    findings.labels = set.names;
    findings.counts = counts_of(set, data, p, train, shown);
    if (classes) {
      findings.confusion = confusion_of(classes_of(data), best_classes(p), shown);
      findings.calibration = calibration(data, p);
    }
  }
  findings.score = classes ? "loss" : set.kind == LabelKind::kRegression ? "distance" : "wrong labels";
  std::vector<double> badness(samples);
  for (size_t i = 0; i < samples; ++i) badness[i] = badness_of(set, data, p, i);
  findings.worst = worst_examples(badness, kWorst, [&](size_t i) {
    return Example{text(i), label_text(set, data, i), prediction_text(set, p, i), badness[i]};
  });
  return findings;
}

}  // namespace lathe
