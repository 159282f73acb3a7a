#pragma once
#include <cstddef>
#include <cstdint>

#include "lathe/core/float16.h"

namespace lathe::group {

/// The options that open a host transport.  Only plain types cross: a transport is a library that is loaded
/// when it is needed, and it may have a C++ runtime of its own.
struct TransportOptions {
  int rank = 0, size = 1;
  int64_t timeout_ms = 0;              ///< of each call
  const char* address = nullptr;       ///< of this machine, as the others reach it
  const char *run = "", *secret = "";  ///< World's
  /// The ranks' store, for finding each other.
  void* store = nullptr;
  bool (*set)(void* store, const char* key, const char* value, size_t bytes) = nullptr;
  /// Waits until the key is set and returns its size; copies as much of the value as fits.  −1: a rank is
  /// gone, or the time is up.
  int64_t (*get)(void* store, const char* key, char* value, size_t capacity) = nullptr;
};

/// A transport that was opened.  Calls return false where they fail: then `why` gives the reason, and all
/// later calls fail, too.
struct Transport {
  void* self = nullptr;
  bool (*sum)(void* self, float* values, size_t count) = nullptr;
  bool (*sum_bf16)(void* self, bf16* values, size_t count) = nullptr;
  bool (*broadcast)(void* self, void* data, size_t bytes, int root) = nullptr;
  /// bytes[r]: what rank r gives; all: what they gave, one after the other.  mine may be its place in all.
  bool (*gather)(void* self, const void* mine, const size_t* bytes, void* all) = nullptr;
  /// Makes the call that is under way fail; from any thread.
  void (*abort)(void* self) = nullptr;
  const char* (*why)(void* self) = nullptr;
  void (*close)(void* self) = nullptr;
};

/// What the library exports by the name kTransportEntry.  False: `error` says why.
using OpenTransport = bool (*)(const TransportOptions* options, Transport* transport, char* error,
                               size_t error_capacity);
constexpr const char* kTransportEntry = "lathe_open_transport";

}  // namespace lathe::group
