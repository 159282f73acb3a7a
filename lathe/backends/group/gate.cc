#include "lathe/backends/group/gate.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lathe/backends/group/hmac.h"
#include "lathe/core/run_secret.h"

namespace lathe::group {
namespace {

constexpr std::chrono::milliseconds kReadAnswer{1000};        // a rank that is refused may read why
constexpr std::chrono::milliseconds kWithoutDescriptor{100};  // until it is tried again

std::span<const unsigned char> bytes_of(const std::vector<char>& text) {
  return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

}  // namespace

Gate::Gate(Descriptor listening, const World& mine, std::string door,
           std::function<std::string(int rank)> refuse, Warn warn, const GateLimits& limits)
    : listening_(std::move(listening)),
      mine_(mine),
      door_(std::move(door)),
      refuse_(std::move(refuse)),
      warn_(std::move(warn)),
      limits_(limits) {}

Gate::Clock::time_point Gate::next_accept() const {
  if (strangers_.size() < limits_.waiting) return pause_;
  return std::max(pause_, strangers_.front().since + limits_.grace);
}

void Gate::add_to(std::vector<pollfd>& wanted) const {
  if (next_accept() <= Clock::now()) wanted.push_back({listening_, POLLIN, 0});
  for (const Stranger& stranger : strangers_)
    if (!stranger.refused) wanted.push_back({stranger.fd, POLLIN, 0});
}

int Gate::timeout_ms() const {
  const auto now = Clock::now();
  auto next = Clock::time_point::max();
  for (const Stranger& stranger : strangers_) next = std::min(next, stranger.until);
  if (const auto accept = next_accept(); accept > now) next = std::min(next, accept);
  if (next == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
  return static_cast<int>(std::max<int64_t>(left, 0));
}

std::optional<Gate::Admitted> Gate::serve() {
  // Data that has come is read before anybody has to make room.
  for (size_t i = 0; i < strangers_.size();) {
    Stranger& stranger = strangers_[i];
    pollfd wanted{stranger.fd, POLLIN, 0};
    const bool heard = stranger.refused || poll(&wanted, 1, 0) <= 0 || hear(stranger);
    if (heard && !stranger.proven && Clock::now() < stranger.until) {
      ++i;
      continue;
    }
    Stranger leaves = std::move(stranger);
    strangers_.erase(strangers_.begin() + static_cast<long>(i));
    if (heard && leaves.proven) return Admitted{std::move(leaves.fd), static_cast<int>(leaves.hello->rank)};
  }
  take_new();
  return {};
}

void Gate::take_new() {
  while (next_accept() <= Clock::now()) {
    Descriptor fd = accept_from(listening_);
    if (fd < 0) {
      const bool none = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED;
      if (!none) pause_ = Clock::now() + kWithoutDescriptor;
      return;
    }
    tune(fd);
    if (strangers_.size() >= limits_.waiting) strangers_.erase(strangers_.begin());
    const auto now = Clock::now();
    strangers_.push_back({.fd = std::move(fd), .since = now, .until = now + limits_.within});
  }
}

/// False: the connection ends.
bool Gate::hear(Stranger& stranger) {
  if (!stranger.reader.read(stranger.fd)) return false;
  while (const auto frame = stranger.reader.next()) {
    if (stranger.proven) return false;  // it must wait for the welcome
    if (!(stranger.hello ? hear_proof(stranger, *frame) : hear_hello(stranger, *frame))) return false;
    if (stranger.refused) return true;
  }
  return !stranger.reader.broken();
}

bool Gate::hear_hello(Stranger& stranger, const Frame& frame) {
  if (is_old_hello(frame))
    return send_away(stranger, "its Lathe is newer than this one: install the same version for all ranks",
                     "a rank whose Lathe is older than this one was sent away: install the same version for "
                     "all ranks");
  const auto hello = hello_in(frame);
  if (!hello) return false;
  const auto who = fmt::format("a process that says it is rank {}", hello->rank);
  if (hello->version != kHandshakeVersion)
    return send_away(stranger, "its Lathe is another version: install the same one for all ranks",
                     who +
                         " has another version of Lathe, and was sent away: install the same one for all "
                         "ranks");
  if (const bool secret = !mine_.secret.empty(); hello->has_secret != secret) {
    const auto text = [](const std::string& first, const std::string& second, bool first_has) {
      return fmt::format("{} has {}, {} {}: give all ranks of the run one secret ({} or {})", first,
                         first_has ? "a secret" : "no secret", second, first_has ? "none" : "one", kRunSecret,
                         kRunSecretFile);
    };
    return send_away(stranger, text("the run", "this rank", secret),
                     who + " was sent away: " + text("this run", "it", secret));
  }
  const auto size = static_cast<uint32_t>(mine_.size);
  if (hello->size != size)
    return send_away(stranger,
                     another_run(fmt::format("it has {} processes, this one {}", size, hello->size)), "");
  if (hello->rank >= size)
    return send_away(stranger,
                     another_run(fmt::format("found rank {}, expected one below {}", hello->rank, size)), "");
  stranger.hello = hello;
  fill_random(stranger.nonce);
  Frame challenge{Frame::Kind::kChallenge, mine_.secret.empty() ? mine_.run : "", {}};
  constexpr size_t kMostName = 500;
  challenge.key.resize(std::min(challenge.key.size(), kMostName));
  for (const std::byte byte : stranger.nonce) challenge.value.push_back(static_cast<char>(byte));
  const auto own = proof(mine_, Side::kDoor, door_, hello->rank, hello->nonce, stranger.nonce);
  challenge.value.insert(challenge.value.end(), own.begin(), own.end());
  return send_frame(stranger.fd, challenge);
}

bool Gate::hear_proof(Stranger& stranger, const Frame& frame) {
  if (frame.kind != Frame::Kind::kProof || !stranger.reader.empty()) return false;
  const Hello& hello = *stranger.hello;
  const auto wanted = proof(mine_, Side::kRank, door_, hello.rank, hello.nonce, stranger.nonce);
  const std::string run = mine_.secret.empty() ? "of another run" : "with another secret, or of another run,";
  if (!same_bytes(bytes_of(frame.value), bytes_of(wanted)))
    return send_away(stranger, another_run("it has another name or secret"),
                     fmt::format("a process {} that says it is rank {} was sent away", run, hello.rank));
  if (const std::string why = refuse_(static_cast<int>(hello.rank)); !why.empty())
    return send_away(stranger, why, "");
  return stranger.proven = send_frame(stranger.fd, {Frame::Kind::kWelcome, "", {}});
}

/// The connection stays open for a while, unread: closing it here would cut off the answer.
bool Gate::send_away(Stranger& stranger, const std::string& why, const std::string& notice) {
  send_frame(stranger.fd, {Frame::Kind::kRefused, why, {}});
  shutdown(stranger.fd, SHUT_WR);
  stranger.refused = true;
  stranger.until = std::min(stranger.until, Clock::now() + kReadAnswer);
  if (warn_ && !notice.empty() && notices_left_-- > 0) warn_(notice);
  return true;
}

}  // namespace lathe::group
