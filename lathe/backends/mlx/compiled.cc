#include "lathe/backends/mlx/compiled.h"

#include <mlx/compile_impl.h>

#include <algorithm>
#include <atomic>

namespace lathe::mlx {
namespace {

std::atomic<uintptr_t> last_id = 0;  // no address is so small
std::atomic<size_t> graphs = 0;

/// Is kept with a graph in MLX's cache and is freed with it.
std::shared_ptr<void> counted() {
  ++graphs;
  return {&graphs, [](void*) { --graphs; }};
}

}  // namespace

Compiled::Compiled(Function function)
    : id_(++last_id),
      function_(mx::detail::compile(
          [f = std::move(function)](const Arrays& inputs) {
            return mx::detail::ArraysAndExtra{f(inputs), counted()};
          },
          id_, false, {})) {}

Compiled::~Compiled() {
  for (const auto& cache : caches_) mx::detail::compile_erase(cache, id_);
}

Arrays Compiled::operator()(const Arrays& inputs) {
  const auto cache = mx::detail::compile_cache();
  const auto is_it = [&](const auto& other) {
    return !cache.owner_before(other) && !other.owner_before(cache);
  };
  if (std::ranges::none_of(caches_, is_it)) {
    std::erase_if(caches_, [](const auto& other) { return other.expired(); });
    caches_.push_back(cache);
  }
  return function_(inputs).first;
}

size_t Compiled::held() { return graphs; }

}  // namespace lathe::mlx
