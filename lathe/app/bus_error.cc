#include "lathe/app/bus_error.h"

#include <signal.h>
#include <unistd.h>

#include <string_view>

namespace lathe {
namespace {

constexpr std::string_view kText =
    "error: a file that was being read got shorter meanwhile, or its disk cannot be read (SIGBUS); see that "
    "nothing writes to the model's and the checkpoint's files, and start again\n";

/// Only what a signal handler may call.
extern "C" void say_and_end(int number) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText.data(), kText.size());
  ::raise(number);  // SA_RESETHAND: now it ends the process
}

}  // namespace

void explain_bus_errors() {
  struct sigaction action {};
  action.sa_handler = say_and_end;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  (void)sigaction(SIGBUS, &action, nullptr);
}

}  // namespace lathe
