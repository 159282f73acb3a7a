#include "lathe/app/terminal/signals.h"

#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <mutex>

namespace lathe {
namespace {

constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};

/// timeout, systemd, Slurm and terminals send a signal to a process and to its group, launchers also to their
/// ranks: signals so close together are one request.
constexpr int64_t kOneRequest_ns = 1'000'000'000;

std::atomic<int> requested{0};
std::atomic<int64_t> requested_at_ns{0};
std::atomic<bool> heard{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free,
              "a signal handler may only touch a lock-free atomic");

std::mutex mutex;
int alive = 0;
std::array<struct sigaction, kSignals.size()> before;

void on_signal(int number) {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const int64_t now = int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  int64_t first = 0;
  if (requested_at_ns.compare_exchange_strong(first, now)) {
    requested.store(number);
  } else if (now - first > kOneRequest_ns) {
    signal(number, SIG_DFL);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    sigprocmask(SIG_UNBLOCK, &one, nullptr);
    raise(number);
    _exit(128 + number);  // process 1 of a container does not end by a signal
  }
}

}  // namespace

StopSignals::StopSignals() {
  const std::lock_guard lock(mutex);
  if (alive++ > 0) return;
  requested.store(0);
  requested_at_ns.store(0);
  heard.store(false);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // a read or write under way goes on: files are whole when the run stops
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before[i]);
    // A shell lets what it starts in the background ignore the Ctrl-C that is meant for another.
    if (before[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  {
    const std::lock_guard lock(mutex);
    if (--alive > 0) return;
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
  }
  if (std::uncaught_exceptions() > 0) return;  // the work has ended, of another rank's stop perhaps
  if (const int signal = requested.load(); signal != 0 && !heard.load()) raise(signal);
}

bool stop_is_asked() { return requested.load() != 0; }

bool wait_to_write(int descriptor) {
  static std::array<std::atomic<bool>, 3> given_up{};
  std::atomic<bool>& nobody_reads = given_up.at(static_cast<size_t>(descriptor));
  constexpr int kPoll_ms = 100, kGrace = 10;
  for (int waited = 0;;) {
    pollfd wanted{descriptor, POLLOUT, 0};
    const bool waits = !nobody_reads || !stop_is_asked();
    const int found = poll(&wanted, 1, waits ? kPoll_ms : 0);     // a signal ends it early
    if (found > 0 || (found < 0 && errno != EINTR)) return true;  // an error is told by the write
    if (!stop_is_asked()) continue;
    if (nobody_reads || ++waited >= kGrace) {
      nobody_reads = true;
      return false;
    }
  }
}

int stop_signal() {
  const int signal = requested.load();
  if (signal != 0) heard.store(true);
  return signal;
}

void end_by_signal(int number) {
  std::fflush(nullptr);
  signal(number, SIG_DFL);
  raise(number);
  _exit(128 + number);  // it is blocked, or this is process 1 of a container: a shell's exit code for it
}

}  // namespace lathe
