#include "lathe/tasks/predictions.h"

#include <algorithm>
#include <cmath>

namespace lathe {
namespace {

template <typename F>
double mean_over_rows(const Predictions& p, const F& value) {
  if (p.logits.empty()) return 1;
  const size_t rows = p.logits.size() / static_cast<size_t>(p.columns);
  double sum = 0;
  for (size_t row = 0; row < rows; ++row) sum += value(row);
  return sum / static_cast<double>(rows);
}

}  // namespace

std::vector<int32_t> best_classes(const Predictions& p) {
  std::vector<int32_t> classes;
  for (size_t row = 0; row < p.logits.size(); row += static_cast<size_t>(p.columns)) {
    const auto begin = p.logits.begin() + static_cast<long>(row);
    classes.push_back(static_cast<int32_t>(std::max_element(begin, begin + p.columns) - begin));
  }
  return classes;
}

std::vector<int32_t> best_rows(const Predictions& p) {
  std::vector<int32_t> rows;
  for (size_t sample = 0; sample + 1 < p.begins.size(); ++sample) {
    const auto begin = p.logits.begin() + p.begins[sample], end = p.logits.begin() + p.begins[sample + 1];
    rows.push_back(static_cast<int32_t>(std::max_element(begin, end) - begin));
  }
  return rows;
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

double agreement(const Predictions& a, const Predictions& b) {
  const std::vector<int32_t> classes_a = best_classes(a), classes_b = best_classes(b);
  return mean_over_rows(a, [&](size_t row) {
    return is_predicted(a, row) && is_predicted(b, row) && classes_a[row] == classes_b[row] ? 1.0 : 0.0;
  });
}

double agreement_of_labels(const Predictions& a, const Predictions& b) {
  const auto columns = static_cast<size_t>(a.columns);
  return mean_over_rows(a, [&](size_t row) {
    bool same = is_predicted(a, row) && is_predicted(b, row);
    for (size_t i = row * columns; i < (row + 1) * columns; ++i)
      same &= (a.logits[i] > 0) == (b.logits[i] > 0);
    return same ? 1.0 : 0.0;
  });
}

double agreement_of_rows(const Predictions& a, const Predictions& b) {
  const std::vector<int32_t> rows_a = best_rows(a), rows_b = best_rows(b);
  if (rows_a.empty()) return 1;
  double same = 0;
  for (size_t sample = 0; sample < rows_a.size(); ++sample) {
    bool predicted = true;
    for (auto row = static_cast<size_t>(a.begins[sample]); row < static_cast<size_t>(a.begins[sample + 1]);
         ++row)
      predicted &= is_predicted(a, row) && is_predicted(b, row);
    same += predicted && rows_a[sample] == rows_b[sample] ? 1.0 : 0.0;
  }
  return same / static_cast<double>(rows_a.size());
}

double mean_distance(const Predictions& a, const Predictions& b) {
  const auto columns = static_cast<size_t>(a.columns);
  return mean_over_rows(a, [&](size_t row) {
    double sum = 0;
    for (size_t i = row * columns; i < (row + 1) * columns; ++i) sum += std::abs(a.logits[i] - b.logits[i]);
    return sum;
  });
}

}  // namespace lathe
