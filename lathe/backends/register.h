#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/program/backend.h"

namespace lathe {

/// What a device is called and whether it can be used here.
struct DeviceStatus {
  std::string kind;        ///< "cpu", "cuda", "mps", "mlx", "ref"
  bool built = false;      ///< its code is in this binary
  bool available = false;  ///< and this machine has it
  std::string detail;      ///< its name, or why it is not there and what to do
};

/// Every device that Lathe knows, in the order in which `auto` prefers them; "ref" is the oracle and never
/// preferred.
std::vector<DeviceStatus> devices();
/// One of them.  Only its own driver is asked: the driver of a GPU takes 0.2 s to answer.
DeviceStatus device_status(const std::string& kind);

/// The levels of instruction sets of the cpu device: which this machine runs, worst first, and which one is
/// used.
struct CpuLevels {
  std::vector<std::string> available;
  std::string chosen;
  bool native_bf16 = false;  ///< the chosen level multiplies bfloat16 in hardware
};
/// Errors: kUsage if LATHE_ISA names a level that is not available.
CpuLevels cpu_levels();

struct DeviceOptions {
  int threads = 0;    ///< cpu: 0 = one per usable core
  bool tf32 = false;  ///< cuda: products of f32 round their operands to 10 bits of mantissa
  /// Takes what a user should know about the device, such as on mps an op that runs on the CPU instead.  May
  /// be empty.
  std::function<void(const std::string&)> warn = {};
  std::shared_ptr<ProcessGroup> group = {};  ///< those that train together; null: this process only
};

/// Opens a device by kind; "auto" takes the first available.  Errors: kUsage for a name that is none,
/// kNotFound for a device that is not built or not available (the message says what to do).
std::unique_ptr<Backend> open_device(const std::string& kind, const DeviceOptions& options = {});

/// Connects the processes that a launcher (lathe launch, torchrun, mpirun, srun) has started together with
/// this one; null where its variables name none.  transport: "gloo", "ring", "mpi", or "" for gloo, or ring
/// where gloo is not installed.  warn: gets what rank 0's user should know about who may join; it may be
/// called on another thread.  Errors: kUsage for variables that do not fit and where ranks have different
/// secrets or transports, kNotFound where the transport is not installed, kIo where not all ranks come within
/// timeout_s.
std::shared_ptr<ProcessGroup> join_processes(const std::string& transport, double timeout_s,
                                             const std::function<void(const std::string&)>& warn = {});

/// Transports between processes that are libraries of their own, and whether they load here: "gloo", "mpi".
std::vector<DeviceStatus> transports();

/// Floating-point operations per second that a device reaches; a multiply-add counts as two.  cpu: operands
/// in registers, as many threads as can be awake at once; cuda: one large product.
struct DevicePeak {
  double f32 = 0, bf16 = 0, f16 = 0;
  double bf16_from_l2 = 0;  ///< with operands from the second cache, where that is less
};

/// Measures them, which takes about half a second; empty for a device that has no such measurement.
/// Errors: kUsage as cpu_levels.
std::optional<DevicePeak> measure_peak(const std::string& kind, const DeviceOptions& options = {});

/// Bytes per second, read and written, of a copy that is too large for the caches.  Takes about a second and
/// 1 GiB of memory.  Empty for a device that has no such measurement.
std::optional<double> measure_copy(const std::string& kind, const DeviceOptions& options = {});

/// Memory that this process holds on such a device now, where the device manages memory itself; else empty.
std::optional<uint64_t> live_device_bytes(const std::string& kind);

/// The most memory of its own that this process held on such a device; empty where a device uses the host's
/// memory.
std::optional<uint64_t> peak_device_bytes(const std::string& kind);

/// Functions that the device's library holds compiled for this process; empty where a device has none.
std::optional<size_t> compiled_functions(const std::string& kind);

}  // namespace lathe
