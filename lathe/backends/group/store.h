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

/// Where ranks meet: values by key, kept by rank 0, and the news of ranks that are gone.  Every rank holds
/// one connection to rank 0.  A rank is gone when its connection closes, or when its machine does not answer
/// for 18 s.  A process that comes to the port and is not a rank of this run is refused and does not count as
/// gone: see gate.h.
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
  /// Tries for `timeout_s` to reach rank 0 and to be let in.  on_gone is called once, on a thread of its own,
  /// when the first rank is found to be gone.  Errors, naming the address: kIo; kUsage where rank 0 belongs
  /// to another run: it has another secret, name or number of ranks, or has this rank already.
  Store(const World& world, double timeout_s, std::function<void()> on_gone);
  ~Store();

  Status set(const std::string& key, std::span<const char> value);
  /// Waits until the key is set.  Errors: kIo when a rank is gone or the time is up.
  Result<std::vector<char>> get(const std::string& key);
  /// `get` in two parts: the value is sent as soon as it is set, even if rank 0 ends right after.
  Status ask(const std::string& key);
  Result<std::vector<char>> wait_for(const std::string& key);
  /// The first rank that was found to be gone; waits for it this long.
  std::optional<int> gone(double wait_s) const;
  /// The address of this machine by which it reaches rank 0.
  const std::string& local_address() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lathe::group
