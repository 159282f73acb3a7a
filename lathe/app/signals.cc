#include "lathe/app/signals.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <exception>
#include <mutex>

namespace lathe {
namespace {

constexpr std::array<int, 2> kSignals = {SIGINT, SIGTERM};

std::atomic<int> requested{0};
std::atomic<bool> heard{false};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch a lock-free atomic");

std::mutex mutex;
int alive = 0;
std::array<struct sigaction, kSignals.size()> before;

void on_signal(int signal) {
  if (requested.exchange(signal) != 0) _exit(128 + signal);
}

}  // namespace

StopSignals::StopSignals() {
  const std::lock_guard lock(mutex);
  if (alive++ > 0) return;
  requested.store(0);
  heard.store(false);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // a read or write under way goes on: files are whole when the run stops
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before[i]);
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

int stop_signal() {
  const int signal = requested.load();
  if (signal != 0) heard.store(true);
  return signal;
}

}  // namespace lathe
