#include "lathe/report/findings.h"

#include <algorithm>
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
