#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "lathe/program/backend.h"

namespace lathe {

/// The memory that a stage ("init", "train", "eval") takes, from the constructor to `finish`, in bytes, under
/// the names of the Trainer: <stage>_mem_cpu_alloc_delta is what it leaves allocated; _peaked_delta is what
/// it had beyond that for a while.  Devices other than the CPU add <stage>_mem_gpu_alloc_delta; "init" adds
/// before_init_mem_cpu, the memory at its start.  Values that the platform does not give are left out.
/// Source: transformers' TrainerMemoryTracker, which samples the resident memory.
class MemoryMetrics {
 public:
  /// Without a stage it measures nothing.
  MemoryMetrics(std::string stage, Backend& backend);
  void finish(nlohmann::json& metrics) const;

 private:
  std::string stage_;
  Backend& backend_;
  std::optional<uint64_t> resident_, device_free_;
};

}  // namespace lathe
