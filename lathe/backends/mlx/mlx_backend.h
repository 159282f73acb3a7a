#pragma once
#include <functional>
#include <memory>
#include <string>

#include "lathe/program/backend.h"

namespace lathe::mlx {

/// The kind of this device: "mps" on a Mac; "mlx" elsewhere, where MLX's builds for CPU and CUDA are used for
/// it in tests.
#if defined(__APPLE__)
constexpr const char* kKind = "mps";
#else
constexpr const char* kKind = "mlx";
#endif

/// Whether the device can be used: its module is next to this program, loads, and finds its hardware.
struct Presence {
  bool built = false, available = false;
  std::string detail;  ///< what MLX calls the device, or what is missing and what to do
};
Presence presence();

/// The device on MLX.  It is a module of its own (lathe_mlx.so), loaded by the first call, so that programs
/// start where MLX is not installed.  With LATHE_MPS_FALLBACK=1 or PYTORCH_ENABLE_MPS_FALLBACK=1, ops without
/// an implementation run on the device that `fallback` opens, and `warn`, if not empty, is told of each once.
/// all_reduce, all_gather and gather_ranks work among `group` (null: this process only), and a run waits for
/// them. Errors: kNotFound where `presence` says that it is not available.
std::unique_ptr<Backend> make_mlx_backend(std::shared_ptr<Backend> (*fallback)(),
                                          std::shared_ptr<ProcessGroup> group,
                                          std::function<void(const std::string&)> warn);

/// Memory of MLX's arrays in this process now, and at its most.
size_t live_bytes();
size_t peak_bytes();

/// Of one program on one thread, the functions used last: lengths of 32 to 512 fall into as many buckets.
constexpr size_t kFunctionsOfAProgram = 8;
/// Functions that MLX holds compiled for this process.
size_t compiled_functions();

}  // namespace lathe::mlx
