#include "lathe/backends/group/handshake.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "lathe/backends/group/hmac.h"
#include "lathe/core/run_secret.h"

namespace lathe::group {
namespace {

/// The value of a hello as it travels.
struct HelloBytes {
  unsigned char zero, version, has_secret, unused;
  uint32_t rank, size;
  Nonce nonce;
};
constexpr size_t kHeadBytes = 3 * sizeof(uint32_t);  // of a frame
static_assert(kHeadBytes + sizeof(HelloBytes) + kHeadBytes + kProofBytes == kHandshakeBytes);

std::span<const unsigned char> view_of(const std::vector<char>& text) {
  return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

/// For a terminal: the sender has proven nothing yet.
std::string plain(std::string text) {
  constexpr size_t kMost = 500;
  text.resize(std::min(text.size(), kMost));
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

std::string named(const std::string& run) { return run.empty() ? "nothing" : run; }

}  // namespace

Frame frame_of(const Hello& hello) {
  const HelloBytes bytes = {0, hello.version, hello.has_secret, 0, hello.rank, hello.size, hello.nonce};
  Frame frame{Frame::Kind::kHello, "", std::vector<char>(sizeof bytes)};
  std::memcpy(frame.value.data(), &bytes, sizeof bytes);
  return frame;
}

std::optional<Hello> hello_in(const Frame& frame) {
  HelloBytes bytes;
  if (frame.kind != Frame::Kind::kHello || !frame.key.empty() || frame.value.size() != sizeof bytes)
    return {};
  std::memcpy(&bytes, frame.value.data(), sizeof bytes);
  if (bytes.zero != 0) return {};
  return Hello{bytes.version, bytes.has_secret != 0, bytes.rank, bytes.size, bytes.nonce};
}

bool is_old_hello(const Frame& frame) {
  return frame.kind == Frame::Kind::kHello && !frame.key.empty() &&
         frame.key.find_first_not_of("0123456789") == std::string::npos;
}

std::vector<char> proof(const World& world, Side side, const std::string& door, uint32_t rank,
                        const Nonce& ranks, const Nonce& doors) {
  const auto add = [](std::string& text, const void* data, size_t bytes) {
    text.append(static_cast<const char*>(data), bytes);
  };
  const auto size = static_cast<uint32_t>(world.size);
  std::string message = side == Side::kDoor ? "lathe door " : "lathe rank ";
  message += door;
  message += '\0';
  add(message, &kHandshakeVersion, sizeof kHandshakeVersion);
  add(message, &rank, sizeof rank);
  add(message, &size, sizeof size);
  add(message, ranks.data(), ranks.size());
  add(message, doors.data(), doors.size());
  message += world.run;
  const auto mac = hmac_sha256(world.secret, message);
  return {mac.begin(), mac.begin() + kProofBytes};
}

std::string another_run(const std::string& difference) {
  return "there is another run: " + difference +
         "; give each a port of its own (--master_port of lathe launch, else MASTER_PORT)";
}

Knock::Knock(int fd, const World& mine, std::string door) : fd_(fd), mine_(mine), door_(std::move(door)) {
  hello_.has_secret = !mine.secret.empty();
  hello_.rank = static_cast<uint32_t>(mine.rank);
  hello_.size = static_cast<uint32_t>(mine.size);
  fill_random(hello_.nonce);
  if (!send_frame(fd_, frame_of(hello_))) state_ = State::kClosed;
}

Knock::State Knock::advance() {
  if (state_ != State::kUnderWay) return state_;
  // What follows the welcome is for another reader.
  if (!reader_.read(fd_, reader_.missing())) return state_ = State::kClosed;
  while (state_ == State::kUnderWay) {
    const auto frame = reader_.next();
    if (!frame) break;
    state_ = hear(*frame);
  }
  if (state_ == State::kUnderWay && reader_.broken())
    state_ = refused("what answers is no rank of Lathe's; name another port (MASTER_PORT)");
  return state_;
}

Knock::State Knock::advance_within(std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (state_ == State::kUnderWay) {
    using std::chrono::milliseconds;
    const auto left = std::chrono::duration_cast<milliseconds>(until - std::chrono::steady_clock::now());
    pollfd wanted{fd_, POLLIN, 0};
    const int ready = poll(&wanted, 1, static_cast<int>(std::max(left, milliseconds(0)).count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return state_ = State::kClosed;
    advance();
  }
  return state_;
}

Knock::State Knock::hear(const Frame& frame) {
  if (frame.kind == Frame::Kind::kRefused) {
    // A Lathe from before version 2 takes the hello for that of a run of another size.
    const bool old = frame.key.starts_with("it has ");
    return refused(old ? "rank 0's Lathe is older than this one: install the same version for all ranks"
                       : plain(frame.key));
  }
  if (frame.kind == Frame::Kind::kChallenge && !challenged_) return answer(frame);
  if (frame.kind == Frame::Kind::kWelcome && challenged_) return State::kIn;
  return refused("what answers is no rank of Lathe's; name another port (MASTER_PORT)");
}

/// The proof is sent even to a door that does not know the secret.  Such a door can do nothing with it, and a
/// door with another secret learns that a rank came.
Knock::State Knock::answer(const Frame& challenge) {
  Nonce doors;
  if (challenge.value.size() != doors.size() + kProofBytes)
    return refused("what answers is no rank of Lathe's; name another port (MASTER_PORT)");
  challenged_ = true;
  std::memcpy(doors.data(), challenge.value.data(), doors.size());
  const std::vector<char> theirs(challenge.value.begin() + kNonceBytes, challenge.value.end());
  const auto of = [&](Side side) { return proof(mine_, side, door_, hello_.rank, hello_.nonce, doors); };
  const bool sent = send_frame(fd_, {Frame::Kind::kProof, "", of(Side::kRank)});
  if (same_bytes(view_of(theirs), view_of(of(Side::kDoor)))) return sent ? State::kUnderWay : State::kClosed;
  if (!mine_.secret.empty())
    return refused(
        "it has another secret (LATHE_RUN_SECRET), or there is another run; give all ranks of a run "
        "one secret, and each run a port of its own (MASTER_PORT)");
  return refused(another_run(
      fmt::format("it is called {}, this one {}", named(plain(challenge.key)), named(mine_.run))));
}

Knock::State Knock::refused(std::string why) {
  why_ = std::move(why);
  return State::kRefused;
}

}  // namespace lathe::group
