#include "lathe/backends/cuda/cuda_backend.h"

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "lathe/backends/cuda/cublaslt.h"
#include "lathe/backends/cuda/cuda_executable.h"
#include "lathe/backends/cuda/nccl.h"
#include "lathe/backends/cuda/products.h"
#include "lathe/core/cache_file.h"
#include "lathe/program/bindings.h"

namespace lathe::cuda {
namespace {

constexpr size_t kAlignment = 256;  // what cuBLASLt's fastest algorithms and vector loads need

/// "NVIDIA H200, 141 GiB"
std::string describe(const cudaDeviceProp& gpu) {
  return fmt::format("{}, {:.0f} GiB", gpu.name, static_cast<double>(gpu.totalGlobalMem) / (1 << 30));
}

class CudaBackend : public Backend {
 public:
  CudaBackend(bool tf32, std::shared_ptr<ProcessGroup> group)
      : group_(std::move(group)),
        nccl_(group_ == nullptr ? nullptr : std::make_unique<Nccl>(*group_)),
        products_(*cublaslt(), tf32),
        device_{{}, current_device(), {}, {}, {}, products_, rounded_, nccl_.get(), {}} {
    const cudaDeviceProp gpu = current_gpu();
    info_.kind = "cuda";
    info_.name = describe(gpu);
    info_.memory_bytes = gpu.totalGlobalMem;
    info_.alignment = kAlignment;
    info_.token_rounding = {64, 64};  // half a tile of a product; fewer programs than with 32
    for (auto entries : {elementwise_entries(), product_entries(), fp8_entries(), row_entries(),
                         pooling_entries(), similarity_entries(), attention_entries(), loss_entries(),
                         linear_cross_entropy_entries(), flat_entries()})
      for (const Entry& entry : entries) {
        CudaImpl impl;
        impl.entry = entry;
        impl.name = entry.name;
        if (entry.late_outputs != 0 || entry.own_queue) impl.in_use = in_use;
        if (entry.accepts != nullptr) impl.accepts = entry.accepts;
        if (entry.workspace_bytes != nullptr) impl.workspace_bytes = entry.workspace_bytes;
        table_[entry.op].push_back(std::move(impl));
      }
    try {
      products_.adopt(read_cache(choices_path_));
    } catch (const Error&) {
      // A broken cache counts as none, and is written again.
    }
    loading_ = std::jthread([this](const std::stop_token& stop) { load_kernels(stop); });
  }

  const DeviceInfo& info() const override { return info_; }
  ProcessGroup* group() const override { return group_.get(); }

  Result<Buffer> allocate(size_t bytes) override {
    const Exclusive turn(device_);
    rounded_.forget_freed();
    return cuda::allocate(bytes, Memory::kDevice, device_.compute);
  }

  std::optional<size_t> free_bytes() const override {
    const Exclusive turn(device_);
    size_t free = 0, total = 0;
    if (!status_of(cudaMemGetInfo(&free, &total), "asking for memory").ok()) return {};
    return free;
  }

  std::string tuning() const override {
    const Exclusive turn(device_);
    return products_.choices();
  }
  void adopt_tuning(const std::string& text) override {
    const Exclusive turn(device_);
    products_.adopt(text);
  }

  size_t prepared_bytes(const Program& program, const Selection&, const Bindings& bindings) const override {
    const Exclusive turn(device_);
    std::set<std::pair<int, DType>> counted;
    size_t bytes = 0;
    for (const Node& node : program.nodes()) {
      const auto read = rounded_inputs(node, program);
      for (const int value : {read.weight, read.bias}) {
        const auto place = value < 0 ? std::nullopt : state_of(program, value);
        if (!place || !counted.emplace(place->state, read.type).second) continue;
        const ValueInfo& state = program.values()[static_cast<size_t>(place->state)];
        const auto bound = bindings.states.find(state.name);
        if (bound == bindings.states.end() || !rounded_.has(bound->second, read.type))
          bytes += static_cast<size_t>(elements(state.type)) * size_of(read.type);
      }
    }
    return bytes;
  }

  Status copy_in(const Buffer& to, size_t offset, std::span<const std::byte> from) override {
    if (offset + from.size() > to.bytes) return {ErrorCode::kInternal, "copy_in: out of the buffer"};
    const Exclusive turn(device_);
    rounded_.changed(to);
    return copy(to.data + offset, from.data(), from.size(), cudaMemcpyHostToDevice);
  }

  Status copy_out(std::span<std::byte> to, const Buffer& from, size_t offset) override {
    if (offset + to.size() > from.bytes) return {ErrorCode::kInternal, "copy_out: out of the buffer"};
    const Exclusive turn(device_);
    return copy(to.data(), from.data + offset, to.size(), cudaMemcpyDeviceToHost);
  }

  std::vector<const Impl*> implementations(const OpDef& op) const override {
    std::vector<const Impl*> list;
    const auto it = table_.find(&op);
    if (it != table_.end())
      for (const CudaImpl& impl : it->second) list.push_back(&impl);
    return list;
  }

  Result<std::unique_ptr<Executable>> compile(const Program& program, const Selection& selection,
                                              const MemoryPlan& plan, const Bindings& bindings) override {
    if (Status status = check_bindings(program, plan, bindings); !status.ok()) return status;
    const Exclusive turn(device_);
    try {
      const size_t timed = products_.timed();
      auto executable = std::make_unique<CudaExecutable>(device_, program, selection, plan, bindings);
      if (products_.timed() != timed) write_cache(choices_path_, products_.choices());
      return std::unique_ptr<Executable>(std::move(executable));
    } catch (const Error& error) {
      return Status(error.code(), error.what());
    }
  }

 private:
  /// Runs while data and model are read: otherwise the first step would wait for it.
  void load_kernels(const std::stop_token& stop) const {
    try {
      check(cudaSetDevice(device_.ordinal), "choosing the GPU");
      products_.load_kernels(stop);
    } catch (const Error&) {
      // What is not loaded is loaded when it is launched, which says what is wrong.
    }
  }

  Status copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    const Status started = status_of(cudaMemcpyAsync(to, from, bytes, kind, device_.compute), "copying");
    return started.ok() ? status_of(cudaStreamSynchronize(device_.compute), "copying") : started;
  }

  static int current_device() {
    int device = 0;
    check(cudaGetDevice(&device), "asking for the GPU");
    return device;
  }

  const std::string choices_path_ = cache_path("cuda_product_kernels.txt");
  std::shared_ptr<ProcessGroup> group_;
  std::unique_ptr<Nccl> nccl_;
  Products products_;
  RoundedStates rounded_;
  mutable Device device_;  // const methods take turns, too
  DeviceInfo info_;
  std::map<const OpDef*, std::vector<CudaImpl>> table_;
  std::jthread loading_;  // the last member: it uses the others
};

}  // namespace

namespace {

Presence look() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver)
    return {true, false, "no NVIDIA driver for CUDA " + std::to_string(CUDART_VERSION / 1000) + " is found"};
  if (error != cudaSuccess || count == 0)
    return {true, false, fmt::format("no NVIDIA GPU is found ({})", cudaGetErrorString(error))};
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return {true, false, "the GPU does not answer"};
  if (const std::string old = why_too_old(properties); !old.empty()) return {true, false, old};
  if (cublaslt() == nullptr) return {true, false, why_no_cublaslt()};
  return {true, true, describe(properties)};
}

}  // namespace

Presence presence() {
  static const Presence found = look();  // asking the driver takes a tenth of a second
  return found;
}

std::unique_ptr<Backend> make_cuda_backend(bool tf32, std::shared_ptr<ProcessGroup> group) {
  const Presence found = presence();
  if (!found.available) fail(ErrorCode::kNotFound, "cuda: {}", found.detail);
  if (group != nullptr) {
    int count = 0;
    check(cudaGetDeviceCount(&count), "asking for the GPUs");
    // A launcher may show each rank only its own GPU, or show every rank all GPUs of the machine.
    const int device = count == 1 ? 0 : group->local_rank();
    // Compared with the number of ranks, too: so every rank ends, and none waits for the last.
    const int ranks = std::max(group->local_rank() + 1, group->local_size());
    if (count > 1 && ranks > count)
      fail(ErrorCode::kUsage,
           "rank {}: {} ranks of this machine want a GPU each, there are {}: start as many processes as GPUs",
           group->rank(), ranks, count);
    check(cudaSetDevice(device), "choosing the GPU");
  }
  return std::make_unique<CudaBackend>(tf32, std::move(group));
}

}  // namespace lathe::cuda
