#pragma once
#include <functional>
#include <vector>

#include "lathe/backends/mlx/lowering.h"

namespace mlx::core::detail {
class CompileCache;
}

namespace lathe::mlx {

/// A function of arrays of fixed shapes that MLX compiles at its first call.
///
/// MLX keeps what it compiled by an id, for each thread that called.  mx::compile takes an address for the
/// id, and drops the result only on the thread where the function was made.  On other threads it would stay,
/// and be taken for the next function at that address.  Here ids are never used twice, and the results of all
/// threads are dropped.
class Compiled {
 public:
  using Function = std::function<Arrays(const Arrays&)>;
  explicit Compiled(Function function);
  ~Compiled();
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  Arrays operator()(const Arrays& inputs);

  /// Graphs that MLX holds now for all such functions of the process.
  static size_t held();

 private:
  const uintptr_t id_;
  std::function<std::pair<Arrays, std::shared_ptr<void>>(const Arrays&)> function_;
  std::vector<std::weak_ptr<mx::detail::CompileCache>> caches_;  // of the threads that called
};

}  // namespace lathe::mlx
