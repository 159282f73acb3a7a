#include "lathe/report/findings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace lathe {

Confusion confusion_of(std::span<const int32_t> labels, std::span<const int32_t> found, size_t shown) {
  Confusion confusion{std::vector(shown, std::vector<int64_t>(shown)), std::vector<int64_t>(shown)};
  const auto is_shown = [&](int32_t label) { return label >= 0 && static_cast<size_t>(label) < shown; };
  for (size_t i = 0; i < std::min(labels.size(), found.size()); ++i) {
    if (!is_shown(labels[i])) continue;
    ++confusion.samples[static_cast<size_t>(labels[i])];
    if (is_shown(found[i])) ++confusion.counts[static_cast<size_t>(labels[i])][static_cast<size_t>(found[i])];
  }
  return confusion;
}

std::optional<Calibration> calibration_of(std::span<const double> confidence,
                                          const std::vector<bool>& right) {
  constexpr size_t kSteps = 10;
  struct Step {
    int64_t samples = 0, right = 0;
    double confidence = 0;
  };
  std::array<Step, kSteps> steps{};
  for (size_t i = 0; i < confidence.size(); ++i) {
    if (!(confidence[i] >= 0 && confidence[i] <= 1)) continue;
    Step& step = steps[std::min(static_cast<size_t>(confidence[i] * kSteps), kSteps - 1)];
    ++step.samples;
    step.right += right[i];
    step.confidence += confidence[i];
  }
  const auto fuller = [](const Step& a, const Step& b) { return a.samples < b.samples; };
  const auto most = std::max_element(steps.begin(), steps.end(), fuller);
  if (most->samples == 0) return std::nullopt;
  Calibration found{.samples = most->samples};
  int64_t samples = 0;
  for (const Step& step : steps) {
    samples += step.samples;
    found.error += std::abs(step.confidence - static_cast<double>(step.right));
  }
  found.error /= static_cast<double>(samples);
  found.from = static_cast<double>(most - steps.begin()) / kSteps;
  found.to = found.from + 1.0 / kSteps;
  found.right = static_cast<double>(most->right) / static_cast<double>(most->samples);
  return found;
}

std::vector<Example> worst_examples(std::span<const double> badness, size_t most,
                                    const std::function<Example(size_t)>& example) {
  std::vector<size_t> order(badness.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // NaN is the worst of all; without this the order would not be one.
  const auto key = [&](size_t i) { return std::isnan(badness[i]) ? HUGE_VAL : badness[i]; };
  const auto before = [&](size_t a, size_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; };
  std::sort(order.begin(), order.end(), before);
  order.resize(std::min(order.size(), most));
  std::vector<Example> worst;
  for (const size_t i : order) worst.push_back(example(i));
  return worst;
}

double cross_entropy_of(std::span<const float> logits, size_t label) {
  const double greatest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - greatest);
  return std::log(sum) + greatest - logits[label];
}

}  // namespace lathe
