#include "lathe/backends/group/store.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "lathe/backends/group/socket.h"
#include "lathe/core/start_thread.h"

namespace lathe::group {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kStoreDoor = "store";
constexpr std::chrono::milliseconds kBetween{50};  // attempts: rank 0 may not be ready yet
constexpr double kAttempt_s = 5;                   // to connect
constexpr std::chrono::seconds kAnswer{30};        // strangers may be in line before this rank

std::chrono::duration<double> seconds(double s) { return std::chrono::duration<double>(s); }

int rank_in(const Frame& frame) { return std::atoi(frame.key.c_str()); }

}  // namespace

struct StoreServer::State {
  struct Peer {
    Descriptor fd;
    int rank;
    FrameReader reader = FrameReader();
    std::vector<std::string> waits = {};  // keys it asked for that are not set yet
  };

  State(const World& world, Warn warn, const GateLimits& limits)
      : gate(
            listen_at(world.address, world.port), world, kStoreDoor,
            [this](int rank) { return why_refused(rank); }, std::move(warn), limits) {
    int ends[2];
    if (pipe(ends) != 0) fail(ErrorCode::kIo, "a pipe cannot be made");
    wake_read = Descriptor(ends[0]);
    wake_write = Descriptor(ends[1]);
    thread = start_thread([this] { serve(); });
  }
  ~State() {
    const char stop = 0;
    if (write(wake_write, &stop, 1) == 1) thread.join();
  }

  void serve() {
    for (;;) {
      std::vector<pollfd> wanted = {{wake_read, POLLIN, 0}};
      for (const Peer& peer : peers) wanted.push_back({peer.fd, POLLIN, 0});
      gate.add_to(wanted);
      if (poll(wanted.data(), wanted.size(), gate.timeout_ms()) < 0) continue;
      if (wanted[0].revents != 0) return;
      for (size_t i = peers.size(); i-- > 0;)
        if (wanted[i + 1].revents != 0 && !hear(peers[i])) drop(i);
      while (auto admitted = gate.serve()) {
        peers.push_back({std::move(admitted->fd), admitted->rank});
        for (const int rank : gone) tell_gone(peers.back(), rank);
      }
    }
  }

  /// False: the connection ends.
  bool hear(Peer& peer) {
    if (!peer.reader.read(peer.fd)) return false;
    while (const auto frame = peer.reader.next()) {
      if (frame->kind == Frame::Kind::kSet) {
        set(frame->key, frame->value);
      } else if (frame->kind == Frame::Kind::kGet) {
        peer.waits.push_back(frame->key);
        answer(peer);
      } else {
        return false;
      }
    }
    return true;
  }

  /// Where two runs use one port, ranks of the later run must not pass for ranks of this one.
  std::string why_refused(int rank) const {
    const bool there = std::any_of(peers.begin(), peers.end(), [&](const Peer& p) { return p.rank == rank; });
    const bool was_there = std::find(gone.begin(), gone.end(), rank) != gone.end();
    return there || was_there ? another_run(fmt::format("it has a rank {} already", rank)) : "";
  }

  void set(const std::string& key, const std::vector<char>& value) {
    values[key] = value;
    for (Peer& peer : peers) answer(peer);
  }

  void answer(Peer& peer) {
    std::erase_if(peer.waits, [&](const std::string& key) {
      const auto it = values.find(key);
      if (it == values.end()) return false;
      send_frame(peer.fd, {Frame::Kind::kValue, key, it->second});
      return true;
    });
  }

  void drop(size_t index) {
    const int rank = peers[index].rank;
    peers.erase(peers.begin() + static_cast<long>(index));
    gone.push_back(rank);
    for (const Peer& peer : peers) tell_gone(peer, rank);
  }

  static void tell_gone(const Peer& peer, int rank) {
    send_frame(peer.fd, {Frame::Kind::kGone, std::to_string(rank), {}});
  }

  Descriptor wake_read, wake_write;
  Gate gate;
  std::vector<Peer> peers;
  std::vector<int> gone;  // in the order in which it was noticed
  std::map<std::string, std::vector<char>> values;
  std::thread thread;  // the last member: it uses the others
};

StoreServer::StoreServer(const World& world, Warn warn, const GateLimits& limits)
    : state_(std::make_unique<State>(world, std::move(warn), limits)) {}
StoreServer::~StoreServer() = default;
int StoreServer::port() const { return state_->gate.port(); }

struct Store::State {
  /// Reads what the server says until the connection ends.
  void listen() {
    FrameReader reader;
    while (reader.read(fd))
      while (const auto frame = reader.next()) {
        if (frame->kind == Frame::Kind::kGone) note_gone(rank_in(*frame));
        if (frame->kind != Frame::Kind::kValue) continue;
        const std::lock_guard lock(mutex);
        values[frame->key] = frame->value;
        changed.notify_all();
      }
    note_gone(0);  // the server lives in rank 0
  }

  void note_gone(int rank) {
    {
      const std::lock_guard lock(mutex);
      if (gone || closing) return;
      gone = rank;
      changed.notify_all();
    }
    on_gone();
  }

  /// Until rank 0 has let this rank in.
  void enter(const World& world) {
    const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds(timeout_s));
    const std::string place =
        fmt::format("{}, port {} (MASTER_ADDR, MASTER_PORT)", world.address, world.port);
    const double attempt_s = std::min(kAttempt_s, timeout_s);
    for (; Clock::now() < until; std::this_thread::sleep_for(kBetween)) {
      fd = connect_to(world.address, world.port, static_cast<int>(attempt_s * 1e3));
      if (fd < 0) continue;
      tune(fd);
      Knock knock(fd, world, kStoreDoor);
      const auto left = std::min(until - Clock::now(), Clock::duration(kAnswer));
      const auto state = knock.advance_within(std::chrono::duration_cast<std::chrono::milliseconds>(left));
      if (state == Knock::State::kIn) return;
      if (state == Knock::State::kRefused)
        fail(ErrorCode::kUsage, "rank {} is sent away at {}: {}", world.rank, place, knock.why());
    }
    fail(ErrorCode::kIo, "rank {}: rank 0 does not answer at {}, within {} s (--ddp_timeout)", world.rank,
         place, timeout_s);
  }

  Descriptor fd;
  std::string local_address;
  double timeout_s = 0;
  std::function<void()> on_gone;
  std::mutex sending;
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::map<std::string, std::vector<char>> values;
  std::optional<int> gone;
  bool closing = false;
  std::thread thread;
};

Store::Store(const World& world, double timeout_s, std::function<void()> on_gone)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.timeout_s = timeout_s;
  s.on_gone = std::move(on_gone);
  s.enter(world);
  s.local_address = group::local_address(s.fd);
  s.thread = start_thread([&s] { s.listen(); });
}

Store::~Store() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->closing = true;
  }
  shutdown(state_->fd, SHUT_RDWR);
  if (state_->thread.joinable()) state_->thread.join();
}

Status Store::set(const std::string& key, std::span<const char> value) {
  const std::lock_guard lock(state_->sending);
  if (send_frame(state_->fd, {Frame::Kind::kSet, key, {value.begin(), value.end()}})) return {};
  return {ErrorCode::kIo, "rank 0 is gone"};
}

Result<std::vector<char>> Store::get(const std::string& key) {
  if (const Status asked = ask(key); !asked.ok()) return asked;
  return wait_for(key);
}

Status Store::ask(const std::string& key) {
  const std::lock_guard lock(state_->sending);
  if (send_frame(state_->fd, {Frame::Kind::kGet, key, {}})) return {};
  return {ErrorCode::kIo, "rank 0 is gone"};
}

Result<std::vector<char>> Store::wait_for(const std::string& key) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  const bool came =
      s.changed.wait_for(lock, seconds(s.timeout_s), [&] { return s.gone || s.values.contains(key); });
  if (const auto it = s.values.find(key); it != s.values.end()) return it->second;
  if (came) return Status(ErrorCode::kIo, fmt::format("rank {} is gone", *s.gone));
  return Status(ErrorCode::kIo, fmt::format("not all ranks came within {} s (--ddp_timeout)", s.timeout_s));
}

std::optional<int> Store::gone(double wait_s) const {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, seconds(wait_s), [&] { return state_->gone.has_value(); });
  return state_->gone;
}

const std::string& Store::local_address() const { return state_->local_address; }

}  // namespace lathe::group
