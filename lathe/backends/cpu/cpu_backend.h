#pragma once
#include <memory>
#include <string>

#include "lathe/program/backend.h"

namespace lathe::cpu {

/// The CPU: own kernels, chosen at run time for the instruction set.  threads = 0: one per usable core.
/// all_reduce, all_gather and gather_ranks work among `group`, and a run waits for them.
std::unique_ptr<Backend> make_cpu_backend(int threads = 0, std::shared_ptr<ProcessGroup> group = {});

/// "Intel(R) Xeon(R) …, 2 cores, amx"
std::string describe();

}  // namespace lathe::cpu
