// The host transport over RDMA between Macs with Thunderbolt 5, through MLX's library JACCL, as a library of
// its own: see backends/group/transport.h.  Source: JACCL's README (devices, `rdma_ctl enable`, macOS 26.2).
#include <jaccl/group.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "lathe/backends/group/call_thread.h"
#include "lathe/backends/group/transport.h"
#include "lathe/core/environment.h"
#include "lathe/core/rdma_devices.h"

// As jaccl/jaccl.h has them, which also includes the verbs' headers of macOS's newest SDK.
namespace jaccl {
using AllGather = std::function<void(const char*, char*, size_t)>;
bool is_available();
std::shared_ptr<Group> init(bool strict, std::function<AllGather(int, int)> factory);
}  // namespace jaccl

namespace lathe::jaccl_transport {
namespace {

using group::Transport;
using group::TransportOptions;

/// JACCL's way to what ranks must know of each other before they are connected, over the store.
jaccl::AllGather through_store(const TransportOptions& options) {
  return [o = options, call = 0](const char* mine, char* all, size_t bytes) mutable {
    const auto key = [&](int rank) { return "jaccl/" + std::to_string(call) + "/" + std::to_string(rank); };
    if (!o.set(o.store, key(o.rank).c_str(), mine, bytes)) throw std::runtime_error("a rank is gone");
    for (int rank = 0; rank < o.size; ++rank) {
      char* const theirs = all + static_cast<size_t>(rank) * bytes;
      if (o.get(o.store, key(rank).c_str(), theirs, bytes) != static_cast<int64_t>(bytes))
        throw std::runtime_error("not all ranks came");
    }
    ++call;
  };
}

/// The file that tells JACCL which RDMA device leads from each rank to each other: the user's own, or one
/// with the text that `lathe launch --hostfile` hands to all ranks, for as long as this lives.
class DeviceFile {
 public:
  DeviceFile() {
    const char* const text = std::getenv(kRdmaDevices);
    if (text == nullptr) {
      if (std::getenv("JACCL_IBV_DEVICES") != nullptr || std::getenv("MLX_IBV_DEVICES") != nullptr) return;
      throw std::runtime_error(
          "--ddp_backend jaccl wants to know the RDMA devices between the Macs: `lathe launch --hostfile "
          "FILE`, with what `mlx.distributed_config --backend jaccl --output FILE` wrote, or "
          "JACCL_IBV_DEVICES");
    }
    const std::string folder = environment("TMPDIR");
    path_ = (folder.empty() ? "/tmp" : folder) + "/lathe_rdma_XXXXXX";
    const int file = mkstemp(path_.data());
    const size_t bytes = std::strlen(text);
    const bool written = file >= 0 && write(file, text, bytes) == static_cast<ssize_t>(bytes);
    if (file >= 0) close(file);
    setenv("JACCL_IBV_DEVICES", path_.c_str(), 1);
    if (written) return;
    remove();
    throw std::runtime_error("cannot write " + path_);
  }
  ~DeviceFile() {
    if (!path_.empty()) remove();
  }
  DeviceFile(const DeviceFile&) = delete;
  DeviceFile& operator=(const DeviceFile&) = delete;

 private:
  void remove() const {
    unlink(path_.c_str());
    unsetenv("JACCL_IBV_DEVICES");
  }
  std::string path_;  // empty: the user's own
};

/// JACCL waits for ever for a rank that died, and writes to what it was given whenever something comes: so it
/// gets memory that stays with it.
struct Mesh {
  std::shared_ptr<jaccl::Group> group;
  std::vector<char> mine, all;  // what a call sends and receives
  group::CallThread thread;

  /// No call that was left behind has the memory.
  bool usable() const { return !thread.stuck(); }

  void connect(const TransportOptions& o) {
    if (!jaccl::is_available())
      throw std::runtime_error(
          "RDMA over Thunderbolt is not here: it wants macOS 26.2, Thunderbolt 5, and `rdma_ctl enable` in "
          "recovery mode; take --ddp_backend ring");
    const DeviceFile devices;
    setenv("JACCL_RANK", std::to_string(o.rank).c_str(), 1);
    setenv("JACCL_COORDINATOR", "127.0.0.1:0", 0);  // asked for, but what it is for goes through the store
    group = jaccl::init(true, [&o](int, int size) {
      if (size != o.size)
        throw std::runtime_error("found the RDMA devices of " + std::to_string(size) +
                                 " ranks, wants those of " + std::to_string(o.size));
      return through_store(o);
    });
    if (group == nullptr) throw std::runtime_error("the RDMA devices form neither a mesh nor a ring");
  }
};

Mesh& mesh(void* self) { return *static_cast<Mesh*>(self); }

/// Each rank sums in the order of the ranks, or, what is long, along the ring: the same bits for all.
template <typename T, int type>
bool sum(void* self, T* values, size_t count) {
  if (count == 0) return true;
  Mesh& m = mesh(self);
  if (!m.usable()) return false;
  const size_t bytes = count * sizeof(T);
  const char* const from = reinterpret_cast<const char*>(values);
  m.mine.assign(from, from + bytes);
  if (!m.thread.call([&m, bytes] { m.group->all_sum(m.mine.data(), m.mine.data(), bytes, type); }))
    return false;
  std::memcpy(values, m.mine.data(), bytes);
  return true;
}

/// The sum of what root has and of zeros.
bool broadcast(void* self, void* data, size_t bytes, int root) {
  Mesh& m = mesh(self);
  if (m.group->rank() != root) std::memset(data, 0, bytes);
  return sum<uint8_t, jaccl::UInt8>(self, static_cast<uint8_t*>(data), bytes);
}

bool gather(void* self, const void* mine, const size_t* bytes, void* all) {
  Mesh& m = mesh(self);
  const size_t ranks = static_cast<size_t>(m.group->size()), own = static_cast<size_t>(m.group->rank());
  const size_t most = *std::max_element(bytes, bytes + ranks);
  if (most == 0) return true;
  if (!m.usable()) return false;
  m.mine.assign(most, 0);
  m.all.resize(most * ranks);
  std::memcpy(m.mine.data(), mine, bytes[own]);
  if (!m.thread.call([&m, most] { m.group->all_gather(m.mine.data(), m.all.data(), most); })) return false;
  char* to = static_cast<char*>(all);
  for (size_t r = 0; r < ranks; to += bytes[r++]) std::memcpy(to, m.all.data() + r * most, bytes[r]);
  return true;
}

void abort(void* self) {
  mesh(self).thread.abort([] {});
}

}  // namespace
}  // namespace lathe::jaccl_transport

extern "C" __attribute__((visibility("default"))) bool lathe_open_transport(
    const lathe::group::TransportOptions* options, lathe::group::Transport* transport, char* error,
    size_t error_capacity) {
  using namespace lathe::jaccl_transport;
  auto self = std::make_unique<Mesh>();
  if (!self->thread.call([&] { self->connect(*options); })) {
    std::snprintf(error, error_capacity, "%s", self->thread.error.c_str());
    return false;
  }
  *transport = {
      self.release(), sum<float, jaccl::Float32>, sum<lathe::bf16, jaccl::BFloat16>, broadcast, gather,
      abort,          lathe::group::why_of<Mesh>, lathe::group::close_of<Mesh>};
  return true;
}
