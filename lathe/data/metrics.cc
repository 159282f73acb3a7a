#include "lathe/data/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "lathe/core/error.h"

namespace lathe {
namespace {

void check_lengths(const char* metric, size_t predictions, size_t labels) {
  if (predictions == labels && labels > 0) return;
  fail(ErrorCode::kUsage, "{}: found {} predictions and {} labels, expected as many and at least one", metric,
       predictions, labels);
}

bool is_constant(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [&](double v) { return v == values[0]; });
}

std::vector<double> average_ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = (static_cast<double>(begin + end) + 1) / 2;
  }
  return ranks;
}

template <typename T>
std::vector<double> as_double(std::span<const T> values) {
  return {values.begin(), values.end()};
}

void add_combined_score(MetricValues& values) {
  if (values.size() < 2) return;
  double sum = 0;
  for (const auto& [name, value] : values) sum += value;
  values.emplace_back("combined_score", sum / static_cast<double>(values.size()));
}

}  // namespace

double accuracy(std::span<const int32_t> predictions, std::span<const int32_t> labels) {
  check_lengths("accuracy", predictions.size(), labels.size());
  int64_t right = 0;
  for (size_t i = 0; i < labels.size(); ++i) right += predictions[i] == labels[i];
  return static_cast<double>(right) / static_cast<double>(labels.size());
}

double binary_f1(std::span<const int32_t> predictions, std::span<const int32_t> labels) {
  check_lengths("f1", predictions.size(), labels.size());
  int64_t both = 0, predicted = 0, labelled = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    both += predictions[i] == 1 && labels[i] == 1;
    predicted += predictions[i] == 1;
    labelled += labels[i] == 1;
  }
  if (both == 0) return 0;
  return 2.0 * static_cast<double>(both) / static_cast<double>(predicted + labelled);
}

double matthews_correlation(std::span<const int32_t> predictions, std::span<const int32_t> labels) {
  check_lengths("matthews_correlation", predictions.size(), labels.size());
  std::map<int32_t, std::pair<double, double>> counts;  // class -> labelled, predicted
  double right = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    counts[labels[i]].first += 1;
    counts[predictions[i]].second += 1;
    right += predictions[i] == labels[i];
  }
  const auto n = static_cast<double>(labels.size());
  double cross = 0, labelled = 0, predicted = 0;
  for (const auto& [id, count] : counts) {
    cross += count.first * count.second;
    labelled += count.first * count.first;
    predicted += count.second * count.second;
  }
  const double norm = (n * n - labelled) * (n * n - predicted);
  return norm == 0 ? 0 : (right * n - cross) / std::sqrt(norm);
}

double pearson_of(std::span<const double> x, std::span<const double> y) {
  check_lengths("pearson", x.size(), y.size());
  if (is_constant(x) || is_constant(y)) return std::numeric_limits<double>::quiet_NaN();
  const auto n = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mean_x, dy = y[i] - mean_y;
    xy += dx * dy, xx += dx * dx, yy += dy * dy;
  }
  if (xx == 0 || yy == 0) return std::numeric_limits<double>::quiet_NaN();
  return std::clamp(xy / (std::sqrt(xx) * std::sqrt(yy)), -1.0, 1.0);
}

double spearman_of(std::span<const double> x, std::span<const double> y) {
  check_lengths("spearmanr", x.size(), y.size());
  const auto is_nan = [](double value) { return std::isnan(value); };  // it has no rank
  for (const auto& values : {x, y})
    if (std::any_of(values.begin(), values.end(), is_nan)) return std::numeric_limits<double>::quiet_NaN();
  return pearson_of(average_ranks(x), average_ranks(y));
}

double pearson(std::span<const float> predictions, std::span<const float> labels) {
  return pearson_of(as_double(predictions), as_double(labels));
}

double spearman(std::span<const float> predictions, std::span<const float> labels) {
  return spearman_of(as_double(predictions), as_double(labels));
}

double mean_squared_error(std::span<const float> predictions, std::span<const float> labels) {
  check_lengths("mse", predictions.size(), labels.size());
  double sum = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const double d = double{predictions[i]} - double{labels[i]};
    sum += d * d;
  }
  return sum / static_cast<double>(labels.size());
}

MetricValues glue_metrics(const GlueTask& task, std::span<const int32_t> predictions,
                          std::span<const int32_t> labels) {
  MetricValues values;
  for (const std::string& name : task.metrics) {
    if (name == "accuracy") values.emplace_back(name, accuracy(predictions, labels));
    if (name == "f1") values.emplace_back(name, binary_f1(predictions, labels));
    if (name == "matthews_correlation") values.emplace_back(name, matthews_correlation(predictions, labels));
  }
  if (values.size() != task.metrics.size())
    fail(ErrorCode::kUsage, "{}: a regression task, expected float predictions", task.name);
  add_combined_score(values);
  return values;
}

MetricValues glue_metrics(const GlueTask& task, std::span<const float> predictions,
                          std::span<const float> labels) {
  if (!task.is_regression())
    fail(ErrorCode::kUsage, "{}: no regression task, expected class predictions", task.name);
  MetricValues values{{"pearson", pearson(predictions, labels)},
                      {"spearmanr", spearman(predictions, labels)}};
  add_combined_score(values);
  return values;
}

}  // namespace lathe
