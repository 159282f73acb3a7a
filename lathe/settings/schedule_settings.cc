#include "lathe/settings/schedule_settings.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "lathe/core/error.h"

namespace lathe {

ScheduleSettings::ScheduleSettings(std::string name, const nlohmann::json& kwargs)
    : name_(std::move(name)), kwargs_(kwargs) {
  if (!kwargs_.is_null() && !kwargs_.is_object()) {
    fail(ErrorCode::kUsage, "--lr_scheduler_kwargs: found {}, expected a JSON object", kwargs_.dump());
  }
}

std::optional<double> ScheduleSettings::number(const std::string& key) {
  known_.insert(key);
  if (!kwargs_.contains(key) || kwargs_[key].is_null()) return std::nullopt;
  if (!kwargs_[key].is_number()) wrong(key, "a number");
  return kwargs_[key].get<double>();
}

std::optional<bool> ScheduleSettings::flag(const std::string& key) {
  known_.insert(key);
  if (!kwargs_.contains(key) || kwargs_[key].is_null()) return std::nullopt;
  if (!kwargs_[key].is_boolean()) wrong(key, "true or false");
  return kwargs_[key].get<bool>();
}

std::string ScheduleSettings::text(const std::string& key, const std::string& otherwise,
                                   const std::set<std::string>& choices) {
  known_.insert(key);
  const std::string value = kwargs_.contains(key) && kwargs_[key].is_string()
                                ? kwargs_[key].get<std::string>()
                            : kwargs_.contains(key) ? kwargs_[key].dump()
                                                    : otherwise;
  if (!choices.count(value)) wrong(key, fmt::format("one of {}", fmt::join(choices, ", ")));
  return value;
}

void ScheduleSettings::no_others() const {
  if (!kwargs_.is_object()) return;
  for (const auto& [key, value] : kwargs_.items()) {
    if (known_.count(key)) continue;
    fail(ErrorCode::kUsage, "--lr_scheduler_kwargs: found '{}', which {} does not take; it takes: {}", key,
         name_, known_.empty() ? "nothing" : fmt::format("{}", fmt::join(known_, ", ")));
  }
}

void ScheduleSettings::wrong(const std::string& key, const std::string& wanted) const {
  fail(ErrorCode::kUsage, "--lr_scheduler_kwargs: {}: '{}' is {}, expected {}", name_, key,
       kwargs_[key].dump(), wanted);
}

}  // namespace lathe
