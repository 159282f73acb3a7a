#include "lathe/app/commands/predict/prediction_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lathe {

std::vector<double> probabilities(LabelKind kind, const float* logits, size_t count) {
  std::vector<double> p(logits, logits + count);
  if (!std::all_of(p.begin(), p.end(), [](double x) { return std::isfinite(x); }))
    return std::vector<double>(count, NAN);
  if (kind == LabelKind::kRegression) return p;
  if (kind == LabelKind::kMultiLabel) {
    for (double& x : p) x = 1 / (1 + std::exp(-x));
    return p;
  }
  const double largest = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& x : p) sum += x = std::exp(x - largest);
  for (double& x : p) x /= sum;
  return p;
}

std::vector<size_t> highest(const std::vector<double>& values, size_t count) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] > values[b]; });
  order.resize(std::min(count, order.size()));
  return order;
}

std::vector<std::string> ranked_names(const std::string& what, size_t count, bool numbered) {
  if (!numbered) return {what, "score"};
  std::vector<std::string> names;
  for (size_t rank = 1; rank <= count; ++rank) {
    names.push_back(fmt::format("{}_{}", what, rank));
    names.push_back(fmt::format("score_{}", rank));
  }
  return names;
}

std::vector<std::string> prediction_names(LabelKind kind, const std::vector<std::string>& labels, int top_k) {
  const size_t ranks = std::min(static_cast<size_t>(top_k), labels.size());
  if (kind == LabelKind::kClasses || top_k > 0) return ranked_names("label", ranks, top_k > 0);
  if (kind == LabelKind::kRegression && labels.size() == 1) return {"score"};
  std::vector<std::string> names;
  if (kind == LabelKind::kMultiLabel) names.emplace_back("labels");
  for (const std::string& label : labels) names.push_back("score_" + label);
  return names;
}

std::vector<Cell> prediction_cells(LabelKind kind, const std::vector<std::string>& labels, int top_k,
                                   const std::vector<double>& p) {
  std::vector<Cell> cells;
  const bool none = std::isnan(p[0]);
  if (kind == LabelKind::kClasses || top_k > 0) {
    for (const size_t k : highest(p, static_cast<size_t>(std::max(top_k, 1)))) {
      cells.push_back(none ? Cell() : Cell::of(labels[k]));
      cells.push_back(Cell::of(static_cast<float>(p[k])));
    }
    return cells;
  }
  if (kind == LabelKind::kMultiLabel) {
    std::vector<std::string> chosen;
    for (size_t k = 0; k < p.size(); ++k)
      if (p[k] > 0.5) chosen.push_back(labels[k]);
    cells.push_back(none ? Cell() : Cell::of(std::move(chosen)));
  }
  for (const double x : p) cells.push_back(Cell::of(static_cast<float>(x)));
  return cells;
}

}  // namespace lathe
