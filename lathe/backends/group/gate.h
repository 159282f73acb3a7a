#pragma once
#include <poll.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lathe/backends/group/handshake.h"

namespace lathe::group {

/// What a connection may cost until it has proven that it is a rank of the run.
struct GateLimits {
  std::chrono::milliseconds within{5000};  ///< from its beginning to its proof
  size_t waiting = 16;                     ///< at most this many at once
  /// When there are too many, the oldest makes room for a new one, but not before it is this old: a rank
  /// answers at once.
  std::chrono::milliseconds grace{250};
};

/// Takes what a user should know.  Called on the thread that calls Gate::serve.
using Warn = std::function<void(const std::string&)>;

/// A door (handshake.h): takes connections at a socket and keeps those that cannot prove that they are ranks
/// of this run away from it.  Each costs at most kHandshakeBytes of memory; none waits for another.
class Gate {
 public:
  struct Admitted {
    Descriptor fd;
    int rank;
  };
  /// refuse: why a rank that has proven itself is not let in; empty: it is let in.  warn is told a few times
  /// at most about ranks that are refused.
  Gate(Descriptor listening, const World& mine, std::string door, std::function<std::string(int rank)> refuse,
       Warn warn = {}, const GateLimits& limits = {});

  int port() const { return port_of(listening_); }
  /// Adds the descriptors that it waits for.
  void add_to(std::vector<pollfd>& wanted) const;
  /// Timeout for poll: until there is something to do even if nothing comes; −1: none.
  int timeout_ms() const;
  /// Does what can be done without waiting.  Returns a rank that is let in; call it until it returns none.
  std::optional<Admitted> serve();
  size_t waiting() const { return strangers_.size(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Stranger {
    Descriptor fd;
    FrameReader reader{kHandshakeBytes};
    Clock::time_point since, until;
    std::optional<Hello> hello = {};  // set once it is challenged
    Nonce nonce = {};
    bool proven = false, refused = false;
  };

  Clock::time_point next_accept() const;
  void take_new();
  bool hear(Stranger& stranger);
  bool hear_hello(Stranger& stranger, const Frame& frame);
  bool hear_proof(Stranger& stranger, const Frame& frame);
  bool send_away(Stranger& stranger, const std::string& why, const std::string& notice);

  Descriptor listening_;
  World mine_;
  std::string door_;
  std::function<std::string(int rank)> refuse_;
  Warn warn_;
  GateLimits limits_;
  std::vector<Stranger> strangers_;  // in the order in which they came
  Clock::time_point pause_;          // nothing is accepted before
  int notices_left_ = 8;
};

}  // namespace lathe::group
