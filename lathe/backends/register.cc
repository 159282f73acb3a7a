// The one file that names the backends.
#include "lathe/backends/register.h"

#include <algorithm>
#include <cstdlib>

#include "lathe/backends/cpu/cpu_backend.h"
#include "lathe/backends/cpu/isa.h"
#include "lathe/backends/cpu/peak.h"
#include "lathe/backends/cuda/cuda_backend.h"
#include "lathe/backends/group/host_group.h"
#include "lathe/backends/mlx/mlx_backend.h"
#include "lathe/backends/ref/ref_backend.h"
#include "lathe/core/cpu_limits.h"

namespace lathe {

namespace {

/// Runs on a Mac what MLX has no implementation of.
std::shared_ptr<Backend> fallback_device() { return cpu::make_cpu_backend(0); }

}  // namespace

DeviceStatus device_status(const std::string& kind) {
  if (kind == "cpu") return {kind, true, true, cpu::describe()};
  if (kind == "ref") return {kind, true, true, "reference, double precision, for tests"};
  if (kind == "cuda") {
    const cuda::Presence gpu = cuda::presence();
    return {kind, gpu.built, gpu.available, gpu.detail};
  }
  const mlx::Presence apple = mlx::presence();
  if (kind == mlx::kKind) return {kind, apple.built, apple.available, apple.detail};
  if (kind == "mps") return {kind, apple.built, false, "needs a Mac with Apple silicon"};
  fail(ErrorCode::kInternal, "device_status: no device is called {}", kind);
}

std::vector<DeviceStatus> devices() {
  std::vector<std::string> kinds = {"cuda", "mps", "cpu"};
  if (mlx::kKind != kinds[1]) kinds.emplace_back(mlx::kKind);  // after cpu: `auto` never takes it
  kinds.emplace_back("ref");
  std::vector<DeviceStatus> list;
  for (const std::string& kind : kinds) list.push_back(device_status(kind));
  return list;
}

CpuLevels cpu_levels() {
  CpuLevels levels;
  for (const cpu::Isa isa : cpu::available_isas()) levels.available.emplace_back(name_of(isa));
  const cpu::Isa chosen = cpu::chosen_isa();
  levels.chosen = name_of(chosen);
  levels.native_bf16 =
      chosen == cpu::Isa::kAvx512Bf16 || chosen == cpu::Isa::kAmx || chosen == cpu::Isa::kNeonBf16;
  return levels;
}

std::unique_ptr<Backend> open_device(const std::string& kind, const DeviceOptions& options) {
  if (kind == "cpu") return cpu::make_cpu_backend(options.threads, options.group);  // asks no driver
  if (kind == "ref") return make_ref_backend(options.group);
  std::string known;
  for (const DeviceStatus& device : devices()) {
    if (kind == "auto" && device.available) return open_device(device.kind, options);
    if (kind == device.kind && !device.available)
      fail(ErrorCode::kNotFound, "device {}: {}. Leave --device out to take the best device that is here.",
           kind, device.detail);
    known += (known.empty() ? "" : ", ") + device.kind;
  }
  if (kind == "cuda") return cuda::make_cuda_backend(options.tf32, options.group);
  if (kind == mlx::kKind) return mlx::make_mlx_backend(fallback_device, options.group, options.warn);
  fail(ErrorCode::kUsage, "found the device {}, expected one of auto, {}", kind, known);
}

std::shared_ptr<ProcessGroup> join_processes(const std::string& transport, double timeout_s,
                                             const std::function<void(const std::string&)>& warn) {
  const auto world = group::world([](const char* name) -> const char* { return std::getenv(name); });
  if (!world) return nullptr;
  const group::TransportLibrary library = group::find_transport(transport);
  if (library.open == nullptr)
    fail(ErrorCode::kNotFound, "rank {} of {}: {}", world->rank, world->size, library.detail);
  return group::join(*world, library, timeout_s, warn);
}

std::vector<DeviceStatus> transports() {
  std::vector<DeviceStatus> list;
  for (const char* name : {"gloo", "mpi"}) {
    const group::TransportLibrary library = group::find_transport(name);
    const bool here = library.open != nullptr;
    list.push_back({name, here, here, library.detail});
  }
  return list;
}

std::optional<DevicePeak> measure_peak(const std::string& kind, const DeviceOptions& options) {
  if (kind == "cuda") {
    const cuda::Peak peak = cuda::measure_peak();
    return DevicePeak{peak.f32, peak.bf16, peak.bf16, peak.bf16};  // tensor cores take f16 as fast as bf16
  }
  if (kind != "cpu") return {};
  // If there are more threads than cores, they take turns at full speed: their rates would add up to more
  // than the cores have.
  const int wanted = options.threads > 0 ? options.threads : default_threads();
  ThreadPool pool(std::min(wanted, most_awake_threads()));
  const cpu::Peak peak = cpu::measure_peak(pool, cpu::chosen_isa());
  return DevicePeak{peak.f32, peak.bf16, peak.f32, peak.bf16_from_l2};  // products of f16 are those of f32
}

std::optional<double> measure_copy(const std::string& kind, const DeviceOptions& options) {
  if (kind == "cuda") return cuda::measure_copy();
  if (kind != "cpu") return {};
  ThreadPool pool(options.threads);
  return cpu::measure_copy(pool);
}

std::optional<uint64_t> live_device_bytes(const std::string& kind) {
  if (kind == mlx::kKind) return mlx::live_bytes();
  return {};
}

std::optional<uint64_t> peak_device_bytes(const std::string& kind) {
  if (kind == "cuda") return cuda::peak_bytes();
  if (kind == mlx::kKind) return mlx::peak_bytes();
  return {};
}

std::optional<size_t> compiled_functions(const std::string& kind) {
  if (kind == mlx::kKind) return mlx::compiled_functions();
  return {};
}

}  // namespace lathe
