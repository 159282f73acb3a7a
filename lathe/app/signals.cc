#include "lathe/app/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace lathe {
namespace {

std::atomic<int> requested{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch a lock-free atomic");

void on_signal(int signal) {
  if (requested.exchange(signal) != 0 && signal == SIGINT) _exit(130);
}

}  // namespace

void install_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // a read or write under way goes on: files are whole when the run stops
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int stop_signal() { return requested.load(); }

void clear_stop_signal() { requested.store(0); }

}  // namespace lathe
