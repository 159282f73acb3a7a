#include "lathe/settings/metric_schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"
#include "lathe/settings/schedule_settings.h"

namespace lathe {
namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
}

MetricSchedule::MetricSchedule(const std::string& name, double learning_rate, const nlohmann::json& kwargs)
    : greedy_(name == "greedy"), first_(learning_rate), rate_(learning_rate) {
  ScheduleSettings settings(name, kwargs);
  const auto number = [&](const char* key, double otherwise) {
    return settings.number(key).value_or(otherwise);
  };
  const auto count = [&](const char* key, int64_t otherwise) {
    const double value = number(key, static_cast<double>(otherwise));
    if (!(value >= 0 && value < 1e15)) settings.wrong(key, "a count");
    return static_cast<int64_t>(value);
  };
  greater_ = settings.text("mode", "min", {"min", "max"}) == "max";
  relative_ = settings.text("threshold_mode", greedy_ ? "abs" : "rel", {"abs", "rel"}) == "rel";
  factor_ = number("factor", greedy_ ? 0.95 : 0.1);
  if (!(factor_ < 1)) settings.wrong("factor", "less than 1");
  threshold_ = number("threshold", greedy_ ? 1e-6 : 1e-4);
  least_ = number("min_lr", greedy_ ? 1e-3 : 0);
  eps_ = number("eps", 1e-8);
  patience_ = count("patience", 10);
  cooldown_ = count("cooldown", 0);
  if (greedy_) {
    most_ = number("max_lr", 1);
    warmup_ = count("warmup", 0);
    smooth_ = settings.flag("smooth").value_or(false);
    window_ = count("window_size", 50);
    if (window_ < 1) settings.wrong("window_size", "at least 1");
    reset_start_ = count("reset_start", 500);
    settings.flag("verbose");
  }
  settings.no_others();
  best_ = greater_ ? -kInfinity : kInfinity;
  until_reset_ = reset_start_;
}

const std::vector<std::string>& MetricSchedule::names() {
  static const std::vector<std::string> all = {"reduce_lr_on_plateau", "greedy"};
  return all;
}

bool MetricSchedule::is(std::string_view name) {
  return std::find(names().begin(), names().end(), name) != names().end();
}

void MetricSchedule::step(double metric) {
  ++evaluations_;
  if (greedy_)
    greedy(smoothed(metric));
  else
    plateau(metric);
}

bool MetricSchedule::better(double value) const {
  const double sign = greater_ ? 1 : -1;
  const double margin = relative_ ? best_ * (1 + sign * threshold_) : best_ + sign * threshold_;
  return greater_ ? value > margin : value < margin;
}

double MetricSchedule::smoothed(double value) {
  if (!smooth_) return value;
  recent_.push_back(value);
  window_sum_ += value;
  if (static_cast<int64_t>(recent_.size()) > window_) {
    window_sum_ -= recent_.front();
    recent_.erase(recent_.begin());
  }
  return window_sum_ / static_cast<double>(recent_.size());
}

void MetricSchedule::plateau(double value) {
  if (better(value)) {
    best_ = value;
    bad_ = 0;
  } else {
    ++bad_;
  }
  if (cooling_ > 0) {
    --cooling_;
    bad_ = 0;
  }
  if (bad_ <= patience_) return;
  const double lower = std::max(rate_ * factor_, least_);
  if (rate_ - lower > eps_) rate_ = lower;
  cooling_ = cooldown_;
  bad_ = 0;
}

void MetricSchedule::greedy(double value) {
  if (cooling_ > 0 || warming_ > 0) {
    --(cooling_ > 0 ? cooling_ : warming_);
    bad_ = good_ = 0;
    return;
  }
  if (better(value)) {
    best_ = value;
    bad_ = 0;
    ++good_;
  } else {
    ++bad_;
    good_ = 0;
  }
  if (good_ > patience_) {
    raise();
    warming_ = warmup_;
    good_ = 0;
  } else if (bad_ > patience_) {
    lower();
    cooling_ = cooldown_;
    bad_ = 0;
  }
}

void MetricSchedule::lower() {
  const double lower = std::max(rate_ * factor_, least_);
  if (rate_ - lower > eps_) rate_ = lower;
  // A rate below min_lr from the start counts as being there, too.
  if (rate_ <= least_ && --until_reset_ <= 0) reset();
}

void MetricSchedule::raise() {
  const double higher = std::min(rate_ / factor_, most_);
  if (higher - rate_ > eps_) rate_ = higher;
  until_reset_ = reset_start_;
}

void MetricSchedule::reset() {
  rate_ = first_;
  best_ = greater_ ? -kInfinity : kInfinity;
  bad_ = good_ = cooling_ = warming_ = 0;
  until_reset_ = reset_start_;
  recent_.clear();
  window_sum_ = 0;
}

nlohmann::json MetricSchedule::state() const {
  nlohmann::json state = {{"learning_rate", rate_},      {"bad", bad_},         {"good", good_},
                          {"cooling", cooling_},         {"warming", warming_}, {"until_reset", until_reset_},
                          {"evaluations", evaluations_}, {"recent", recent_},   {"window_sum", window_sum_}};
  if (best_ != kInfinity && best_ != -kInfinity) state["best"] = best_;  // JSON has no infinity
  return state;
}

void MetricSchedule::restore(const nlohmann::json& state) {
  rate_ = state.at("learning_rate");
  best_ = state.value("best", greater_ ? -kInfinity : kInfinity);
  bad_ = state.at("bad");
  good_ = state.at("good");
  cooling_ = state.at("cooling");
  warming_ = state.at("warming");
  until_reset_ = state.at("until_reset");
  evaluations_ = state.value("evaluations", int64_t{0});  // old checkpoints do not say
  recent_ = state.at("recent").get<std::vector<double>>();
  window_sum_ = state.at("window_sum");
}

nlohmann::json MetricSchedule::python_state() const {
  const auto both = [](double value) { return nlohmann::json::array({value, value}); };
  nlohmann::json state = {{"mode", greater_ ? "max" : "min"},
                          {"factor", factor_},
                          {"threshold", threshold_},
                          {"threshold_mode", relative_ ? "rel" : "abs"},
                          {"min_lrs", both(least_)},
                          {"eps", eps_},
                          {"patience", patience_},
                          {"cooldown", cooldown_},
                          {"_last_lr", both(rate_)},
                          {"best", best_},
                          {"num_bad_epochs", bad_},
                          {"cooldown_counter", cooling_},
                          {"last_epoch", evaluations_}};
  if (!greedy_) {
    state["default_min_lr"] = least_;
    state["mode_worse"] = greater_ ? -kInfinity : kInfinity;
    return state;
  }
  state.update({{"max_lrs", both(most_)},
                {"_init_lrs", both(first_)},
                {"warmup", warmup_},
                {"warmup_counter", warming_},
                {"num_good_epochs", good_},
                {"reset_start", until_reset_},
                {"reset_start_original", reset_start_},
                {"smooth", smooth_},
                {"window_size", window_}});
  if (smooth_)
    state["_streaming_avg"] = {{"window_size", window_}, {"values", recent_}, {"sum", window_sum_}};
  return state;
}

nlohmann::json MetricSchedule::state_of_python(const nlohmann::json& python, const std::string& file) {
  // Those that reduce_lr_on_plateau has not are as they are here.
  const auto count = [&](const char* key, int64_t otherwise) {
    return value_or<int64_t>(python, key, otherwise, file);
  };
  const auto rates = required<std::vector<double>>(python, "_last_lr", file);
  if (rates.empty() || std::ranges::any_of(rates, [&](double rate) { return rate != rates.front(); }))
    fail(ErrorCode::kUnsupported, "{}: \"_last_lr\": found {}, expected one learning rate for all parameters",
         file, nlohmann::json(rates).dump());
  const auto window = value_or<nlohmann::json>(python, "_streaming_avg", nlohmann::json::object(), file);
  nlohmann::json state = {
      {"learning_rate", rates.front()},
      {"bad", required<int64_t>(python, "num_bad_epochs", file)},
      {"good", count("num_good_epochs", 0)},
      {"cooling", required<int64_t>(python, "cooldown_counter", file)},
      {"warming", count("warmup_counter", 0)},
      {"until_reset", count("reset_start", 500)},
      {"evaluations", required<int64_t>(python, "last_epoch", file)},
      {"recent", value_or<std::vector<double>>(window, "values", {}, file)},
      {"window_sum", value_or<double>(window, "sum", 0, file)},
  };
  const auto best = required<double>(python, "best", file);
  if (std::isfinite(best)) state["best"] = best;
  return state;
}

}  // namespace lathe
