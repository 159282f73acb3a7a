#include "lathe/backends/group/ring.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "lathe/backends/group/gate.h"
#include "lathe/backends/group/ring_transport.h"
#include "lathe/backends/group/socket.h"

namespace lathe::group {
namespace {

constexpr int kConnect_ms = 20000;  // all ranks have come when they connect

std::string errno_text(const char* doing) { return std::string(doing) + ": " + std::strerror(errno); }

class Ring {
 public:
  explicit Ring(const TransportOptions& o) : rank_(o.rank), size_(o.size), timeout_ms_(o.timeout_ms) {
    World world;
    world.rank = rank_;
    world.size = size_;
    world.run = o.run;
    world.secret = o.secret;
    const int before = (rank_ + size_ - 1) % size_, next = (rank_ + 1) % size_;
    Gate gate(listen_at(o.address, 0), world, key(rank_), [&](int rank) {
      return rank == before ? "" : fmt::format("found rank {}, expected rank {}", rank, before);
    });
    const std::string own = std::string(o.address) + " " + std::to_string(gate.port());
    if (!o.set(o.store, key(rank_).c_str(), own.data(), own.size())) throw Broken{"a rank is gone"};
    std::array<char, 256> text = {};
    if (o.get(o.store, key(next).c_str(), text.data(), text.size() - 1) <= 0)
      throw Broken{"not all ranks came"};
    meet(gate, world, next, text.data());
  }

  void abort() {
    shutdown(next_, SHUT_RDWR);
    shutdown(before_, SHUT_RDWR);
  }

  std::string error;  ///< of the first call that failed

 private:
  static std::string key(int rank) { return "ring/" + std::to_string(rank); }

  /// Connects to the next rank, at "address port", while the one before connects to this one.
  void meet(Gate& gate, const World& world, int next, const std::string& place) {
    using std::chrono::milliseconds;
    using std::chrono::steady_clock;
    const auto until = steady_clock::now() + milliseconds(kConnect_ms);
    const size_t space = place.rfind(' ');
    std::optional<Knock> knock;
    for (bool in = false; !in || before_ < 0;) {
      const auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now()).count();
      if (left <= 0)
        throw Broken{in ? "the rank before this one does not connect"
                        : "the next rank does not answer at " + place};
      if (!knock) {
        next_ =
            connect_to(place.substr(0, space), std::atoi(place.c_str() + space + 1), static_cast<int>(left));
        if (next_ < 0) throw Broken{"the next rank does not answer at " + place};
        tune(next_);
        knock.emplace(next_, world, key(next));
      }
      std::vector<pollfd> wanted = {{in ? -1 : int{next_}, POLLIN, 0}};
      gate.add_to(wanted);
      const int most = gate.timeout_ms();
      const int limit = static_cast<int>(most < 0 ? left : std::min<int64_t>(left, most));
      if (poll(wanted.data(), wanted.size(), limit) < 0) continue;
      const auto state = wanted[0].revents != 0 ? knock->advance() : Knock::State::kUnderWay;
      if (state == Knock::State::kRefused) throw Broken{"at " + place + ": " + knock->why()};
      if (state == Knock::State::kIn) in = true;
      if (state == Knock::State::kClosed) knock.reset();
      while (auto admitted = gate.serve()) before_ = std::move(admitted->fd);
    }
  }

  /// Sends to the next rank and receives from the previous one at the same time.  If all ranks sent first,
  /// nobody would take what does not fit into the system's buffers.
  void exchange(const void* out, size_t out_bytes, void* in, size_t in_bytes) {
    const char* from = static_cast<const char*>(out);
    char* to = static_cast<char*>(in);
    while (out_bytes > 0 || in_bytes > 0) {
      std::array<pollfd, 2> wanted = {pollfd{out_bytes > 0 ? int{next_} : -1, POLLOUT, 0},
                                      pollfd{in_bytes > 0 ? int{before_} : -1, POLLIN, 0}};
      const int ready =
          poll(wanted.data(), wanted.size(), static_cast<int>(std::min<int64_t>(timeout_ms_, 1 << 30)));
      if (ready < 0 && errno != EINTR) throw Broken{errno_text("waiting")};
      if (ready == 0) throw Broken{"no data came in time"};
      if (wanted[0].revents != 0) advance(from, out_bytes, send(next_, from, out_bytes, kFlags), "sending");
      if (wanted[1].revents != 0) advance(to, in_bytes, recv(before_, to, in_bytes, kFlags), "receiving");
    }
  }

  template <typename T>
  static void advance(T*& at, size_t& left, ssize_t moved, const char* doing) {
    if (moved == 0) throw Broken{"the connection ended"};
    if (moved < 0 && errno != EAGAIN && errno != EINTR) throw Broken{errno_text(doing)};
    if (moved < 0) return;
    at += moved;
    left -= static_cast<size_t>(moved);
  }

#if defined(__linux__)
  static constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
#else
  static constexpr int kFlags = MSG_DONTWAIT;  // `tune` has set SO_NOSIGPIPE
#endif

  const int rank_, size_;
  const int64_t timeout_ms_;
  Descriptor next_, before_;

 public:
  /// Sums, broadcasts and gathers over these connections.
  RingOrder order{rank_, size_, [this](const void* out, size_t out_bytes, void* in, size_t in_bytes) {
                    exchange(out, out_bytes, in, in_bytes);
                  }};
};

}  // namespace

bool open_ring(const TransportOptions* options, Transport* transport, char* error, size_t error_capacity) {
  try {
    return RingTransport<Ring>::open(options, transport, error, error_capacity);
  } catch (const Error& broken) {
    std::snprintf(error, error_capacity, "%s", broken.what());
    return false;
  }
}

}  // namespace lathe::group
