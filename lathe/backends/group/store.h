#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/backends/group/gate.h"
#include "lathe/backends/group/world.h"
#include "lathe/core/error.h"

namespace lathe::group {

/// Where ranks meet: values by key, kept by rank 0, and word of who is gone.  Every rank holds one connection
/// to rank 0; one that closes, or whose machine does not answer for 18 s, is a rank that is gone.
/// Who comes to the port and is no rank of this run is sent away, and is no news: see gate.h.
class StoreServer {
 public:
  /// Listens at the world's address (listen_at) and port, 0: any that is free.  warn is called on a thread of
  /// its own.  Errors: kIo if the port is taken.
  explicit StoreServer(const World& world, Warn warn = {}, const GateLimits& limits = {});
  ~StoreServer();
  int port() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A rank's connection.  All methods may be called from any thread.
class Store {
 public:
  /// Tries to reach rank 0, and to be let in, for `timeout_s`.  on_gone is called once, on a thread of its
  /// own, when the first rank is found to be gone.  Errors, naming the address: kIo; kUsage where rank 0 is
  /// of another run: it has another secret, name or number of ranks, or this rank already.
  Store(const World& world, double timeout_s, std::function<void()> on_gone);
  ~Store();

  Status set(const std::string& key, std::span<const char> value);
  /// Waits until the key is set.  Errors: kIo when a rank is gone or the time is up.
  Result<std::vector<char>> get(const std::string& key);
  /// `get` in two parts: what was asked for comes as soon as it is set, though rank 0 may end then.
  Status ask(const std::string& key);
  Result<std::vector<char>> wait_for(const std::string& key);
  /// The first rank that was found to be gone; waits for it for so long.
  std::optional<int> gone(double wait_s) const;
  /// The address of this machine by which it reaches rank 0.
  const std::string& local_address() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lathe::group
