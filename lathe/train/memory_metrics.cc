#include "lathe/train/memory_metrics.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "lathe/core/host_memory.h"

namespace lathe {
namespace {

int64_t difference(uint64_t a, uint64_t b) { return static_cast<int64_t>(a) - static_cast<int64_t>(b); }

}  // namespace

MemoryMetrics::MemoryMetrics(std::string stage, Backend& backend)
    : stage_(std::move(stage)), backend_(backend) {
  if (stage_.empty()) return;
  reset_peak_resident();
  resident_ = resident_bytes();
  if (backend_.info().kind != "cpu") device_free_ = backend_.free_bytes();
}

void MemoryMetrics::finish(nlohmann::json& metrics) const {
  if (stage_.empty()) return;
  const std::string prefix = stage_ + "_mem_";
  const auto now = resident_bytes(), peak = peak_resident_bytes();
  if (resident_ && stage_ == "init") metrics["before_init_mem_cpu"] = *resident_;
  if (resident_ && now) {
    metrics[prefix + "cpu_alloc_delta"] = difference(*now, *resident_);
    if (peak) metrics[prefix + "cpu_peaked_delta"] = std::max<int64_t>(0, difference(*peak, *now));
  }
  if (const auto free = device_free_ ? backend_.free_bytes() : std::nullopt)
    metrics[prefix + "gpu_alloc_delta"] = difference(*device_free_, *free);
}

}  // namespace lathe
