#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lathe/backends/register.h"

namespace lathe {

/// What `lathe doctor` examines.  Sizes in bytes; an optional is empty if the platform does not tell.
struct MachineFacts {
  std::string system, release, machine;  ///< as uname says: "Linux", "6.1.0", "x86_64"
  std::string macos;                     ///< its version, on a Mac
  bool translated = false;               ///< the process runs under Rosetta
  std::string cpu_model;
  std::vector<std::string> cpu_features;  ///< those that matter here: avx2, amx_bf16, ...
  std::optional<CpuLevels> levels;        ///< empty: see level_error
  std::string level_error;
  int logical_cpus = 0, cores = 0, threads = 0;  ///< of the machine; allowed physical ones; used by default
  double cpu_quota = 0;                          ///< CPUs that the cgroup grants; 0: unlimited
  std::optional<uint64_t> memory_total, memory_free;
  std::string folder, cache;  ///< working folder, empty where it was deleted; Hugging Face cache
  std::optional<uint64_t> folder_free, cache_free;
  /// Of the cache: if it does not exist, writable means that it can be made.
  bool folder_writable = false, cache_exists = false, cache_writable = false;
  bool nvidia_gpu = false;  ///< the machine has one, and its driver
  std::vector<DeviceStatus> devices;
  /// Libraries that are opened when needed. kind: the name of the library.  Without a part (libcurl, Parquet)
  /// something does not work; processes train together without a transport (gloo, mpi), too.
  std::vector<DeviceStatus> parts, transports;
};

/// Reads them from this machine.
MachineFacts machine_facts();

struct DoctorReport {
  /// "[GOOD] ...", "[BAD]  ...: what to do" for what keeps something from working, "[ -- ] ..." for what this
  /// machine need not have.
  std::vector<std::string> lines;
  int exit_code = 0;  ///< 1 if training on the CPU cannot work
};

/// Judges the facts.
DoctorReport examine(const MachineFacts& facts);

}  // namespace lathe
