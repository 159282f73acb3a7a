#include "lathe/train/predictions.h"

#include <algorithm>
#include <cmath>

namespace lathe {

std::vector<int32_t> best_classes(const Predictions& p) {
  std::vector<int32_t> classes;
  for (size_t row = 0; row < p.logits.size(); row += static_cast<size_t>(p.columns)) {
    const auto begin = p.logits.begin() + static_cast<long>(row);
    classes.push_back(static_cast<int32_t>(std::max_element(begin, begin + p.columns) - begin));
  }
  return classes;
}

bool is_predicted(const Predictions& p, size_t row) {
  const auto begin = p.logits.begin() + static_cast<long>(row) * p.columns;
  return std::all_of(begin, begin + p.columns, [](float x) { return std::isfinite(x); });
}

int64_t unpredicted(const Predictions& p) {
  if (p.logits.empty()) return 0;
  const bool tokens = !p.begins.empty();
  const size_t samples = tokens ? p.begins.size() - 1 : p.logits.size() / static_cast<size_t>(p.columns);
  int64_t count = 0;
  for (size_t sample = 0; sample < samples; ++sample) {
    size_t row = tokens ? static_cast<size_t>(p.begins[sample]) : sample;
    const size_t end = tokens ? static_cast<size_t>(p.begins[sample + 1]) : sample + 1;
    while (row < end && is_predicted(p, row)) ++row;
    count += row < end;
  }
  return count;
}

double agreement(Problem problem, const Predictions& a, const Predictions& b) {
  if (a.logits.empty()) return 1;
  const size_t columns = static_cast<size_t>(a.columns), samples = a.logits.size() / columns;
  const std::vector<int32_t> classes_a = best_classes(a), classes_b = best_classes(b);
  double sum = 0;
  for (size_t sample = 0; sample < samples; ++sample) {
    bool same = is_predicted(a, sample) && is_predicted(b, sample);
    if (problem != Problem::kMultiLabel) same &= classes_a[sample] == classes_b[sample];
    for (size_t i = sample * columns; i < (sample + 1) * columns; ++i) {
      if (problem == Problem::kRegression) sum += std::abs(a.logits[i] - b.logits[i]);
      if (problem == Problem::kMultiLabel) same &= (a.logits[i] > 0) == (b.logits[i] > 0);
    }
    if (problem != Problem::kRegression) sum += same ? 1 : 0;
  }
  return sum / static_cast<double>(samples);
}

}  // namespace lathe
