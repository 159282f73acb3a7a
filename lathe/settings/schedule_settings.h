#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

namespace lathe {

/// lr_scheduler_kwargs for one schedule.  It remembers which settings were read, so that the rest is an
/// error.  Every getter throws kUsage if the value is of another kind.
class ScheduleSettings {
 public:
  /// kwargs must outlive it.  Errors: kUsage unless null or an object.
  ScheduleSettings(std::string name, const nlohmann::json& kwargs);

  std::optional<double> number(const std::string& key);
  std::optional<bool> flag(const std::string& key);
  std::string text(const std::string& key, const std::string& otherwise,
                   const std::set<std::string>& choices);
  /// Errors: kUsage if there is a key that nobody has read.
  void no_others() const;
  [[noreturn]] void wrong(const std::string& key, const std::string& wanted) const;

 private:
  std::string name_;
  const nlohmann::json& kwargs_;
  std::set<std::string> known_;
};

}  // namespace lathe
