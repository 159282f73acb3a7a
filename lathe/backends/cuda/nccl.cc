#include "lathe/backends/cuda/nccl.h"

#include <dlfcn.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/backends/cuda/device.h"

namespace lathe::cuda {
namespace {

// The few entry points of NCCL 2 that are used, as nccl.h declares them since 2.0; its header is not needed.
using Comm = struct ncclComm*;
struct UniqueId {
  char internal[128];
};
constexpr int kSuccess = 0, kInvalidUsage = 5;        // ncclSuccess, …
constexpr int kFloat32 = 7, kBfloat16 = 9, kSum = 0;  // ncclFloat32, …

struct Library {
  int (*GetUniqueId)(UniqueId*) = nullptr;
  int (*CommInitRank)(Comm*, int ranks, UniqueId, int rank) = nullptr;
  int (*CommAbort)(Comm) = nullptr;
  int (*AllReduce)(const void*, void*, size_t, int type, int op, Comm, cudaStream_t) = nullptr;
  int (*AllGather)(const void*, void*, size_t, int type, Comm, cudaStream_t) = nullptr;
  int (*Broadcast)(const void*, void*, size_t, int type, int root, Comm, cudaStream_t) = nullptr;
  int (*GroupStart)() = nullptr;
  int (*GroupEnd)() = nullptr;
  const char* (*GetErrorString)(int) = nullptr;
};

std::optional<Library> open() {
  void* library = nullptr;
  for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/lib/x86_64-linux-gnu/",
                             "/usr/lib/aarch64-linux-gnu/", "/opt/cuda/lib64/"})
    if (library == nullptr)
      library = dlopen((std::string(folder) + "libnccl.so.2").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  Library found;
  bool all = true;
  const auto look_up = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    all = all && function != nullptr;
  };
  look_up(found.GetUniqueId, "ncclGetUniqueId");
  look_up(found.CommInitRank, "ncclCommInitRank");
  look_up(found.CommAbort, "ncclCommAbort");
  look_up(found.AllReduce, "ncclAllReduce");
  look_up(found.AllGather, "ncclAllGather");
  look_up(found.Broadcast, "ncclBroadcast");
  look_up(found.GroupStart, "ncclGroupStart");
  look_up(found.GroupEnd, "ncclGroupEnd");
  look_up(found.GetErrorString, "ncclGetErrorString");
  if (!all) return {};
  return found;
}

const Library& library() {
  static const std::optional<Library> opened = open();
  if (!opened)
    fail(
        ErrorCode::kNotFound,
        "libnccl.so.2 is not found: several processes with --device cuda want NVIDIA's NCCL (Debian, Ubuntu: "
        "libnccl2), or its folder in LD_LIBRARY_PATH");
  return *opened;
}

void check_nccl(int result, const char* doing) {
  if (result != kSuccess) fail(ErrorCode::kInternal, "nccl: {}: {}", doing, library().GetErrorString(result));
}

}  // namespace

struct Nccl::State {
  Comm comm = nullptr;
};

Nccl::Nccl(ProcessGroup& group) : state_(std::make_unique<State>()) {
  UniqueId id = {};
  if (group.rank() == 0) check_nccl(library().GetUniqueId(&id), "asking for an id");
  group.broadcast(std::as_writable_bytes(std::span(id.internal)), 0).check();
  const int joined = library().CommInitRank(&state_->comm, group.size(), id, group.rank());
  if (joined == kInvalidUsage)
    fail(
        ErrorCode::kUsage,
        "nccl: joining the ranks: {}; two ranks on one GPU are answered so: start as many processes as GPUs, "
        "or train with --device cpu",
        library().GetErrorString(joined));
  check_nccl(joined, "joining the ranks");
  // Ways of summing are connected when one is first taken, which depends on the size: none of it in a
  // capture.
  const Stream stream;
  const Buffer values = allocate(size_t{32} << 20, Memory::kDevice, stream).value();
  for (size_t bytes = 8; bytes <= values.bytes; bytes *= 8)
    for (const DType dtype : {DType::f32, DType::bf16})
      sum(stream, dtype, values.data, bytes / size_of(dtype));
  const size_t ranks = static_cast<size_t>(group.size());
  float* const numbers = reinterpret_cast<float*>(values.data);
  for (size_t part = 1; part * (ranks + 1) * sizeof(float) <= values.bytes; part *= 8) {
    gather(stream, numbers, std::vector<int64_t>(ranks, static_cast<int64_t>(part)));
    gather(stream, numbers, part, numbers + part);
  }
  check(cudaStreamSynchronize(stream), "summing");
}

/// Abort, not destroy: that would wait for a rank that is gone.
Nccl::~Nccl() {
  if (state_->comm != nullptr) library().CommAbort(state_->comm);
}

void Nccl::sum(cudaStream_t stream, DType dtype, void* values, size_t count) const {
  const int type = dtype == DType::bf16 ? kBfloat16 : kFloat32;
  check_nccl(library().AllReduce(values, values, count, type, kSum, state_->comm, stream), "summing");
}

/// As one launch: broadcasts of a group are.
void Nccl::gather(cudaStream_t stream, float* values, std::span<const int64_t> counts) const {
  check_nccl(library().GroupStart(), "gathering");
  for (size_t r = 0; r < counts.size(); values += counts[r++])
    check_nccl(library().Broadcast(values, values, static_cast<size_t>(counts[r]), kFloat32,
                                   static_cast<int>(r), state_->comm, stream),
               "gathering");
  check_nccl(library().GroupEnd(), "gathering");
}

void Nccl::gather(cudaStream_t stream, const float* values, size_t count, float* all) const {
  check_nccl(library().AllGather(values, all, count, kFloat32, state_->comm, stream), "gathering");
}

}  // namespace lathe::cuda
