#pragma once
#include <functional>
#include <memory>
#include <string>

#include "lathe/backends/mlx/entry_name.h"
#include "lathe/program/backend.h"

// What passes between a program and the module lathe_mlx.so, which are of one build.  No exception crosses.

namespace lathe::mlx {

using Warn = std::function<void(const std::string&)>;

struct Module {
  /// Whether the hardware is there; `detail`: its name, or why not.
  bool (*available)(std::string* detail);
  /// fallback: the device that runs what has no implementation here; null: none does.  group: the ranks of
  /// all_reduce, all_gather and gather_ranks; null: this process only.  warn: takes lines for people; may be
  /// empty.
  Result<std::unique_ptr<Backend>> (*make)(std::shared_ptr<Backend> fallback,
                                           std::shared_ptr<ProcessGroup> group, Warn warn);
  size_t (*live_bytes)();  ///< memory of MLX's arrays now
  size_t (*peak_bytes)();  ///< and at its most
  size_t (*compiled_functions)();
};

/// The module's one symbol, kModuleEntry, is a function that gives its Module.  Its name is made from all
/// sources of the module (libraries.cmake): a program does not find it in a module of another build.
using ModuleEntry = const Module* (*)();

}  // namespace lathe::mlx
