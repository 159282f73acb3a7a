#pragma once
#include <system_error>
#include <thread>
#include <utility>

#include "lathe/core/error.h"

namespace lathe {

/// A thread that runs `work()`.  Errors: kMemory where the system gives none.
template <typename Work>
std::thread start_thread(Work&& work) {
  try {
    return std::thread(std::forward<Work>(work));
  } catch (const std::system_error& error) {
    fail(ErrorCode::kMemory,
         "the system gives no more threads: {}; `ulimit -u` and the pids of the cgroup limit them",
         error.what());
  }
}

}  // namespace lathe
