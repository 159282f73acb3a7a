#pragma once
#include <gtest/gtest.h>

#include <string>

#include "lathe/backends/register.h"

namespace lathe {

/// The device on MLX: without a Mac it is only for tests.
#if defined(__APPLE__)
inline constexpr const char* kMlxDevice = "mps";
#else
inline constexpr const char* kMlxDevice = "mlx";
#endif

/// Devices that a test with a device as its parameter runs on; where one is not here, the test is skipped.
inline auto devices_under_test() { return testing::Values("ref", "cpu", "cuda", kMlxDevice); }

/// Why the device cannot be tested here; empty if it can.
inline std::string not_here(const std::string& kind) {
  if (kind == "cpu" || kind == "ref") return "";
  for (const DeviceStatus& device : devices())
    if (device.kind == kind) return device.available ? "" : kind + ": " + device.detail;
  return kind + " is unknown";
}

}  // namespace lathe

/// Leaves the test as skipped where the device is not here.
#define LATHE_NEEDS_DEVICE(kind) \
  if (const std::string why = lathe::not_here(kind); !why.empty()) GTEST_SKIP() << why
