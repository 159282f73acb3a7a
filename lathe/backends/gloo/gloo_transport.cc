// The host transport through Gloo over TCP, as a library of its own: see backends/group/transport.h.
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <string>

#include "lathe/backends/group/call_thread.h"
#include "lathe/backends/group/transport.h"

namespace lathe::gloo_transport {
namespace {

using group::Transport;
using group::TransportOptions;

class RankStore : public gloo::rendezvous::Store {
 public:
  explicit RankStore(const TransportOptions& options) : o_(options) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    if (!o_.set(o_.store, key.c_str(), data.data(), data.size())) GLOO_THROW_IO_EXCEPTION("a rank is gone");
  }
  std::vector<char> get(const std::string& key) override {
    std::vector<char> value(64 << 10);
    for (;;) {
      const int64_t bytes = o_.get(o_.store, key.c_str(), value.data(), value.size());
      if (bytes < 0) GLOO_THROW_IO_EXCEPTION("not all ranks came");
      const bool fits = static_cast<size_t>(bytes) <= value.size();
      value.resize(static_cast<size_t>(bytes));
      if (fits) return value;
    }
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }

 private:
  const TransportOptions& o_;
};

/// The connections, and the thread of all calls of Gloo: it wakes those that wait in its queues, not the one
/// that it is writing.
struct Mesh {
  ~Mesh() {
    thread.call([this] { context = nullptr; });
  }

  std::shared_ptr<gloo::rendezvous::Context> context;
  uint32_t tag = 0;  // of the next call
  group::CallThread thread;
};

Mesh& mesh(void* self) { return *static_cast<Mesh*>(self); }

void add_bf16(void* sum, const void* a, const void* b, size_t count) {
  const bf16 *x = static_cast<const bf16*>(a), *y = static_cast<const bf16*>(b);
  bf16* into = static_cast<bf16*>(sum);
  for (size_t i = 0; i < count; ++i) into[i] = to_bf16(to_float(x[i]) + to_float(y[i]));
}

/// The ring sums each piece on one rank after the other, then passes the result round: all ranks get the same
/// bits.
template <typename T, void (*add)(void*, const void*, const void*, size_t)>
bool sum(void* self, T* values, size_t count) {
  Mesh& m = mesh(self);
  return m.thread.call([&] {
    if (count == 0) return;
    gloo::AllreduceOptions options(m.context);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(values, count);
    options.setReduceFunction(add);
    options.setTag(m.tag++);
    gloo::allreduce(options);
  });
}

bool broadcast(void* self, void* data, size_t bytes, int root) {
  Mesh& m = mesh(self);
  return m.thread.call([&] {
    if (bytes == 0) return;
    gloo::BroadcastOptions options(m.context);
    options.setOutput(static_cast<char*>(data), bytes);
    options.setRoot(root);
    options.setTag(m.tag++);
    gloo::broadcast(options);
  });
}

bool gather(void* self, const void* mine, const size_t* bytes, void* all) {
  Mesh& m = mesh(self);
  return m.thread.call([&] {
    std::vector<size_t> sizes(bytes, bytes + m.context->size);
    gloo::AllgathervOptions options(m.context);
    const char* place = static_cast<const char*>(all);
    for (int r = 0; r < m.context->rank; ++r) place += sizes[static_cast<size_t>(r)];
    if (place != mine)  // without an input it takes what is there
      options.setInput(static_cast<char*>(const_cast<void*>(mine)),
                       sizes[static_cast<size_t>(m.context->rank)]);
    options.setOutput(static_cast<char*>(all), sizes);
    options.setTag(m.tag++);
    gloo::allgatherv(options);
  });
}

/// From then on no call reads or writes the memory of a caller.
void abort(void* self) {
  mesh(self).thread.abort([self] {
    if (mesh(self).context) mesh(self).context->closeConnections();
  });
}

}  // namespace
}  // namespace lathe::gloo_transport

extern "C" __attribute__((visibility("default"))) bool lathe_open_transport(
    const lathe::group::TransportOptions* options, lathe::group::Transport* transport, char* error,
    size_t error_capacity) {
  using namespace lathe::gloo_transport;
  using lathe::bf16;
  auto self = std::make_unique<Mesh>();
  const bool connected = self->thread.call([&] {
    gloo::transport::tcp::attr where;
    where.hostname = options->address;
    auto device = gloo::transport::tcp::CreateDevice(where);
    auto context = std::make_shared<gloo::rendezvous::Context>(options->rank, options->size);
    // All ranks are there when they connect, so one that does not answer now never will.  Gloo waits five
    // times as long for a connection as for data.
    constexpr std::chrono::seconds kConnect{4};
    context->setTimeout(kConnect);
    RankStore store(*options);
    context->connectFullMesh(store, device);
    context->setTimeout(std::chrono::milliseconds(options->timeout_ms));
    self->context = context;
  });
  if (!connected) {
    std::snprintf(error, error_capacity, "%s", self->thread.error.c_str());
    return false;
  }
  *transport = {self.release(), sum<float, &gloo::sum<float>>, sum<bf16, add_bf16>,         broadcast, gather,
                abort,          lathe::group::why_of<Mesh>,    lathe::group::close_of<Mesh>};
  return true;
}
