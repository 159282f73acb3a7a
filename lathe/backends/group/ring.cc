#include "lathe/backends/group/ring.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "lathe/backends/group/ring_transport.h"
#include "lathe/backends/group/socket.h"

namespace lathe::group {
namespace {

constexpr uint32_t kMagic = 0x4c545247;  // "LTRG": what does not begin so is no rank of ours
constexpr int kConnect_ms = 20000;       // all ranks have come when they connect

std::string errno_text(const char* doing) { return std::string(doing) + ": " + std::strerror(errno); }

class Ring {
 public:
  explicit Ring(const TransportOptions& o) : rank_(o.rank), size_(o.size), timeout_ms_(o.timeout_ms) {
    const Descriptor listening = listen_on(0);
    const std::string own = std::string(o.address) + " " + std::to_string(port_of(listening));
    if (!o.set(o.store, key(rank_).c_str(), own.data(), own.size())) throw Broken{"a rank is gone"};
    std::array<char, 256> text = {};
    if (o.get(o.store, key((rank_ + 1) % size_).c_str(), text.data(), text.size() - 1) <= 0)
      throw Broken{"not all ranks came"};
    const std::string next = text.data();
    const size_t space = next.rfind(' ');
    next_ = connect_to(next.substr(0, space), std::atoi(next.c_str() + space + 1), kConnect_ms);
    if (next_ < 0) throw Broken{"the next rank does not answer at " + next};
    const std::array<uint32_t, 2> hello = {kMagic, static_cast<uint32_t>(rank_)};
    tune(next_);
    exchange(hello.data(), sizeof hello, nullptr, 0);
    before_ = accept_before(listening);
  }

  void abort() {
    shutdown(next_, SHUT_RDWR);
    shutdown(before_, SHUT_RDWR);
  }

  std::string error;  ///< of the first call that failed

 private:
  static std::string key(int rank) { return "ring/" + std::to_string(rank); }

  /// The connection of the rank before this one; others that knock are sent away.
  Descriptor accept_before(int listening) {
    for (;;) {
      pollfd wanted{listening, POLLIN, 0};
      if (poll(&wanted, 1, kConnect_ms) <= 0) throw Broken{"the rank before this one does not connect"};
      before_ = Descriptor(accept(listening, nullptr, nullptr));
      if (before_ < 0) continue;
      tune(before_);
      std::array<uint32_t, 2> hello = {};
      exchange(nullptr, 0, hello.data(), sizeof hello);
      if (hello[0] == kMagic && hello[1] == static_cast<uint32_t>((rank_ + size_ - 1) % size_))
        return std::move(before_);
    }
  }

  /// Sends to the next rank and receives from the one before at the same time: if all sent first, none would
  /// take what does not fit into the system's buffers.
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
