#pragma once
#include <cstdint>
#include <optional>

namespace lathe {

/// Memory of this machine in bytes, or what its container may use of it; empty where the platform does not
/// tell.
struct HostMemory {
  std::optional<uint64_t> total, free;
};
HostMemory host_memory();

/// The most memory of this process that was ever resident, in bytes.
std::optional<uint64_t> peak_resident_bytes();

}  // namespace lathe
