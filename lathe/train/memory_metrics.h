#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lathe/program/backend.h"

namespace lathe {

/// What a stage ("init", "train", "eval") takes of memory, from here to `finish`, under the names of the
/// Trainer: <stage>_mem_cpu_alloc_delta, what it leaves allocated, and _peaked_delta, what it had beyond that
/// for a while; on other devices than the CPU also <stage>_mem_gpu_alloc_delta; for "init" also
/// before_init_mem_cpu, what was there at its start.  In bytes; those that the platform does not tell are not
/// there.
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
