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

/// The label of a sample as people read it.
std::string label_text(const LabelSet& set, const TokenizedDataset& data, size_t row) {
  if (set.kind == LabelKind::kRegression) return fmt::format("{:3.3f}", data.targets[row]);
  if (set.kind == LabelKind::kClasses) return set.names[static_cast<size_t>(data.labels[row])];
  std::string names;
  for (size_t k = 0; k < set.names.size(); ++k)
    if (data.targets[row * set.names.size() + k] > 0.5f) names += (names.empty() ? "" : ",") + set.names[k];
  return names;
}

/// How wrong a prediction is: the loss of a class, the distance of a number, the labels that differ.
double badness_of(const LabelSet& set, const TokenizedDataset& data, const Predictions& p, size_t row) {
  const size_t columns = static_cast<size_t>(p.columns);
  const std::span<const float> logits(&p.logits[row * columns], columns);
  if (set.kind == LabelKind::kClasses) return cross_entropy_of(logits, static_cast<size_t>(data.labels[row]));
  if (set.kind == LabelKind::kRegression) return std::abs(logits[0] - data.targets[row]);
  double differ = 0;
  for (size_t k = 0; k < columns; ++k) differ += (logits[k] > 0) != (data.targets[row * columns + k] > 0.5f);
  return differ;
}

}  // namespace

Findings label_findings(const LabelSet& set, const std::string& origin, const TokenizedDataset& data,
                        const Predictions& p, const std::function<std::string(size_t)>& text) {
  constexpr size_t kWorst = 20, kMostLabels = 100;
  const bool classes = set.kind == LabelKind::kClasses;
  const size_t samples = static_cast<size_t>(data.size());
  Findings findings{.data = origin};
  if (set.kind == LabelKind::kRegression && p.columns != 1) return findings;  // several numbers a sample
  if (classes ? data.labels.size() < samples || std::count(data.labels.begin(), data.labels.end(), -1) > 0
              : data.targets.empty())
    return findings;
  if (classes) {
    findings.labels = set.names;
    findings.confusion = confusion_of(data.labels, best_classes(p), std::min(set.names.size(), kMostLabels));
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
