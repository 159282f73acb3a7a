#pragma once
#include <array>
#include <chrono>
#include <optional>
#include <string>

#include "lathe/backends/group/socket.h"
#include "lathe/backends/group/world.h"

namespace lathe::group {

/// How a rank proves at a door (rank 0's store, a rank of the ring) that it is one of the run, and the door
/// proves the same to it, four frames in all:
///   rank → door  kHello      a zero byte, the version, whether it has a secret; its rank, the number of
///                            ranks, a nonce
///   door → rank  kChallenge  key: the run's name, but not where there is a secret; a nonce, a proof
///   rank → door  kProof      a proof
///   door → rank  kWelcome    or, in place of any of its frames, kRefused
/// A proof is the first half of the HMAC-SHA-256, by the run's secret, of both nonces and of all that both
/// must agree on; so nobody can replay it or use it elsewhere.  Without a secret it proves only that they
/// agree.  A rank sends kHandshakeBytes until it is let in.
constexpr size_t kHandshakeBytes = 64;
constexpr unsigned char kHandshakeVersion = 2;  // before it had a number a hello was "rank", "size name"

constexpr size_t kNonceBytes = 12, kProofBytes = 16;
using Nonce = std::array<std::byte, kNonceBytes>;

struct Hello {
  unsigned char version = kHandshakeVersion;
  bool has_secret = false;
  uint32_t rank = 0, size = 0;
  Nonce nonce = {};
};
Frame frame_of(const Hello& hello);
/// Empty: the frame is no hello, or a hello of a Lathe from before version 2.
std::optional<Hello> hello_in(const Frame& frame);
/// Whether it is the hello of a Lathe from before version 2.
bool is_old_hello(const Frame& frame);

enum class Side : unsigned char { kDoor, kRank };
/// `rank`: the rank that knocks.  door: which door it is; a proof for one door is not valid at another.
std::vector<char> proof(const World& world, Side side, const std::string& door, uint32_t rank,
                        const Nonce& ranks, const Nonce& doors);

/// What a rank of another run at the same port is told.
std::string another_run(const std::string& difference);

/// A connection to a door, until the rank is let in or not.
class Knock {
 public:
  enum class State {
    kUnderWay,
    kIn,
    kClosed,   ///< without an answer: there were too many others; try again
    kRefused,  ///< `why`
  };
  /// Says hello.  The connection belongs to the caller.
  Knock(int fd, const World& mine, std::string door);
  /// Reads once what is there, waiting for it if nothing is.
  State advance();
  State advance_within(std::chrono::milliseconds limit);
  const std::string& why() const { return why_; }

 private:
  State hear(const Frame& frame);
  State answer(const Frame& challenge);
  State refused(std::string why);

  static constexpr size_t kMostBytes = 2048;  // of all that a door says until then
  int fd_;
  World mine_;
  std::string door_, why_;
  Hello hello_;
  FrameReader reader_{kMostBytes};
  bool challenged_ = false;
  State state_ = State::kUnderWay;
};

}  // namespace lathe::group
