#include "lathe/train/early_stopping.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace lathe {
namespace {
constexpr const char* kName = "EarlyStoppingCallback";
constexpr const char* kCount = "early_stopping_patience_counter";
}  // namespace

EarlyStopping::EarlyStopping(int64_t patience, double threshold, const nlohmann::json& callbacks)
    : patience_(patience), threshold_(threshold) {
  const nlohmann::json::json_pointer place(std::string("/") + kName + "/attributes/" + kCount);
  if (callbacks.contains(place) && callbacks[place].is_number_integer()) count_ = callbacks[place];
}

bool EarlyStopping::step(double metric, std::optional<double> best, bool greater_is_better,
                         nlohmann::json& callbacks) {
  const bool better =
      std::isfinite(metric) && (!best || ((greater_is_better ? metric > *best : metric < *best) &&
                                          std::abs(metric - *best) > threshold_));
  count_ = better ? 0 : count_ + 1;
  callbacks[kName] = {
      {"args", {{"early_stopping_patience", patience_}, {"early_stopping_threshold", threshold_}}},
      {"attributes", {{kCount, count_}}}};
  return exhausted();
}

}  // namespace lathe
