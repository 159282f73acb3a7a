#include "lathe/settings/lr_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <set>

#include "lathe/core/error.h"
#include "lathe/settings/schedule_settings.h"

namespace lathe {
namespace {

using nlohmann::json;
using Factor = std::function<double(double)>;
constexpr double kPi = std::numbers::pi;

struct Run {
  double warmup, steps, learning_rate;

  bool warming(double step) const { return step < warmup; }
  double rise(double step) const { return step / std::max(1.0, warmup); }
  double progress(double step) const { return (step - warmup) / std::max(1.0, steps - warmup); }
};

double half_cosine(double cycles, double progress) {
  return 0.5 * (1.0 + std::cos(kPi * cycles * 2.0 * progress));
}

/// min_lr as a share of the learning rate, from either of its two spellings.
double min_rate(ScheduleSettings& settings, const Run& run, const std::string& name) {
  const auto min_lr = settings.number("min_lr"), rate = settings.number("min_lr_rate");
  if (min_lr.has_value() == rate.has_value()) {
    fail(ErrorCode::kUsage,
         "--lr_scheduler_kwargs: {} expected exactly one of min_lr and min_lr_rate, found {}", name,
         min_lr ? "both" : "none");
  }
  return min_lr ? *min_lr / run.learning_rate : *rate;
}

Factor linear(ScheduleSettings&, Run run) {
  return [run](double s) {
    if (run.warming(s)) return run.rise(s);
    return std::max(0.0, (run.steps - s) / std::max(1.0, run.steps - run.warmup));
  };
}

Factor cosine(ScheduleSettings& settings, Run run) {
  const double cycles = settings.number("num_cycles").value_or(0.5);
  return [=](double s) {
    return run.warming(s) ? run.rise(s) : std::max(0.0, half_cosine(cycles, run.progress(s)));
  };
}

Factor cosine_with_restarts(ScheduleSettings& settings, Run run) {
  const double cycles = settings.number("num_cycles").value_or(1);
  return [=](double s) {
    if (run.warming(s)) return run.rise(s);
    const double progress = run.progress(s);
    if (progress >= 1.0) return 0.0;
    return std::max(0.0, 0.5 * (1.0 + std::cos(kPi * std::fmod(cycles * progress, 1.0))));
  };
}

Factor polynomial(ScheduleSettings& settings, Run run) {
  const double end = settings.number("lr_end").value_or(1e-7), power = settings.number("power").value_or(1.0);
  if (!(run.learning_rate > end)) {
    fail(ErrorCode::kUsage,
         "--lr_scheduler_kwargs: polynomial: lr_end is {}, expected less than --learning_rate {}", end,
         run.learning_rate);
  }
  return [=](double s) {
    if (run.warming(s)) return run.rise(s);
    if (s > run.steps || run.steps <= run.warmup) return end / run.learning_rate;
    const double left = 1 - (s - run.warmup) / (run.steps - run.warmup);
    return ((run.learning_rate - end) * std::pow(left, power) + end) / run.learning_rate;
  };
}

Factor constant(ScheduleSettings&, Run) {
  return [](double) { return 1.0; };
}

Factor constant_with_warmup(ScheduleSettings&, Run run) {
  return [run](double s) { return run.warming(s) ? run.rise(s) : 1.0; };
}

Factor inverse_sqrt(ScheduleSettings& settings, Run run) {
  const double scale = settings.number("timescale").value_or(run.warmup > 0 ? run.warmup : 10000);
  if (!(scale > 0)) settings.wrong("timescale", "more than 0");
  return [=](double s) {
    return run.warming(s) ? run.rise(s) : 1.0 / std::sqrt((s + (scale - run.warmup)) / scale);
  };
}

Factor cosine_with_min_lr(ScheduleSettings& settings, Run run) {
  const double cycles = settings.number("num_cycles").value_or(0.5);
  const double least = min_rate(settings, run, "cosine_with_min_lr");
  return [=](double s) {
    if (run.warming(s)) return run.rise(s);
    return std::max(0.0, half_cosine(cycles, run.progress(s)) * (1 - least) + least);
  };
}

// Unlike the others it starts above 0: warmup and decay count from one step further.
Factor cosine_warmup_with_min_lr(ScheduleSettings& settings, Run run) {
  const double cycles = settings.number("num_cycles").value_or(0.5);
  const double least = min_rate(settings, run, "cosine_warmup_with_min_lr");
  const auto first = settings.number("warmup_lr_rate");
  return [=](double s) {
    if (run.warming(s)) {
      if (!first) return (s + 1.0) / std::max(1.0, run.warmup);
      return *first + (1.0 - *first) * s / std::max(1.0, run.warmup - 1);
    }
    return std::max(0.0, half_cosine(cycles, run.progress(s + 1.0)) * (1 - least) + least);
  };
}

Factor warmup_stable_decay(ScheduleSettings& settings, Run run) {
  const std::set<std::string> shapes = {"linear", "cosine", "1-sqrt"};
  const auto decay = settings.number("num_decay_steps");
  if (!decay)
    fail(ErrorCode::kUsage,
         "--lr_scheduler_kwargs: warmup_stable_decay expected num_decay_steps, found none");
  const double stable = settings.number("num_stable_steps").value_or(run.steps - run.warmup - *decay);
  const double least = settings.number("min_lr_ratio").value_or(0),
               cycles = settings.number("num_cycles").value_or(0.5);
  const std::string up = settings.text("warmup_type", "linear", shapes);
  const std::string down = settings.text("decay_type", "cosine", shapes);
  const auto lifted = [least](double factor) { return std::max(0.0, factor * (1.0 - least) + least); };
  return [=](double s) {
    if (run.warming(s)) {
      const double p = run.rise(s);
      return lifted(up == "linear"   ? p
                    : up == "cosine" ? 0.5 * (1.0 - std::cos(kPi * p))
                                     : 1.0 - std::sqrt(1.0 - p));
    }
    if (s < run.warmup + stable) return 1.0;
    if (s >= run.warmup + stable + *decay) return least;
    const double p = (s - run.warmup - stable) / std::max(1.0, *decay);
    return lifted(down == "linear"   ? 1.0 - p
                  : down == "cosine" ? half_cosine(cycles, p)
                                     : 1.0 - std::sqrt(p));
  };
}

struct Schedule {
  std::string name;
  Factor (*make)(ScheduleSettings&, Run);
};

const std::vector<Schedule>& schedules() {
  static const std::vector<Schedule> all = {{"linear", linear},
                                            {"cosine", cosine},
                                            {"cosine_with_restarts", cosine_with_restarts},
                                            {"polynomial", polynomial},
                                            {"constant", constant},
                                            {"constant_with_warmup", constant_with_warmup},
                                            {"inverse_sqrt", inverse_sqrt},
                                            {"cosine_with_min_lr", cosine_with_min_lr},
                                            {"cosine_warmup_with_min_lr", cosine_warmup_with_min_lr},
                                            {"warmup_stable_decay", warmup_stable_decay}};
  return all;
}

}  // namespace

LrSchedule::LrSchedule(const std::string& name, int64_t warmup_steps, int64_t training_steps,
                       double learning_rate)
    : LrSchedule(name, warmup_steps, training_steps, learning_rate, nlohmann::json()) {}

LrSchedule::LrSchedule(const std::string& name, int64_t warmup_steps, int64_t training_steps,
                       double learning_rate, const json& kwargs)
    : learning_rate_(learning_rate) {
  const auto found =
      std::find_if(schedules().begin(), schedules().end(), [&](const auto& s) { return s.name == name; });
  if (found == schedules().end()) {
    fail(ErrorCode::kUsage, "--lr_scheduler_type: found '{}', expected one of {}", name,
         fmt::join(names(), ", "));
  }
  ScheduleSettings settings(name, kwargs);
  factor_ = found->make(
      settings, {static_cast<double>(warmup_steps), static_cast<double>(training_steps), learning_rate});
  settings.no_others();
}

const std::vector<std::string>& LrSchedule::names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names;
    for (const auto& schedule : schedules()) names.push_back(schedule.name);
    return names;
  }();
  return all;
}

}  // namespace lathe
