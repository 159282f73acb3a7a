#pragma once
#include <cstdio>
#include <string>

#include "lathe/backends/group/ring_order.h"
#include "lathe/backends/group/transport.h"

namespace lathe::group {

/// Why a call of a ring ends.
struct Broken {
  std::string why;
};

/// Makes a Transport of a Ring.  The Ring is made from TransportOptions; its constructor and the exchange of
/// its RingOrder `order` throw Broken; its `error` says why the first call failed; and its abort() may be
/// called from any thread.  All of it is in this header: a module links nothing of this folder.
template <typename Ring>
class RingTransport {
 public:
  /// As OpenTransport.
  static bool open(const TransportOptions* options, Transport* transport, char* error,
                   size_t error_capacity) {
    try {
      *transport = {new Ring(*options), sum<float>, sum<bf16>, broadcast, gather, abort, why, close};
      return true;
    } catch (const Broken& broken) {
      std::snprintf(error, error_capacity, "%s", broken.why.c_str());
      return false;
    }
  }

 private:
  static Ring& ring(void* self) { return *static_cast<Ring*>(self); }

  /// Returns false, and keeps the reason, where it throws or an earlier call did.
  static bool guarded(void* self, auto call) {
    Ring& r = ring(self);
    if (!r.error.empty()) return false;
    try {
      call(r.order);
    } catch (const Broken& broken) {
      r.error = broken.why;
    }
    return r.error.empty();
  }

  template <typename T>
  static bool sum(void* self, T* values, size_t count) {
    return guarded(self, [&](RingOrder& order) { order.sum(values, count); });
  }
  static bool broadcast(void* self, void* data, size_t bytes, int root) {
    return guarded(self, [&](RingOrder& order) { order.broadcast(static_cast<char*>(data), bytes, root); });
  }
  static bool gather(void* self, const void* mine, const size_t* bytes, void* all) {
    return guarded(self, [&](RingOrder& order) {
      order.gather(static_cast<const char*>(mine), bytes, static_cast<char*>(all));
    });
  }
  static void abort(void* self) { ring(self).abort(); }
  static const char* why(void* self) { return ring(self).error.c_str(); }
  static void close(void* self) { delete &ring(self); }
};

}  // namespace lathe::group
