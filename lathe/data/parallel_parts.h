#pragma once
#include <exception>
#include <vector>

#include "lathe/core/thread_pool.h"

namespace lathe {

/// Runs make(begin, end) -> T on an even share of `total` items per thread and returns the parts in order.
/// The first exception (in order of parts) is thrown on.
template <typename T, typename Make>
std::vector<T> parallel_parts(ThreadPool& pool, long total, const Make& make) {
  std::vector<T> parts(static_cast<size_t>(pool.size()));
  std::vector<std::exception_ptr> errors(parts.size());
  pool.run([&](int part, int count) {
    const Share items = share(total, part, count);
    try {
      parts[part] = make(items.begin, items.end);
    } catch (...) {
      errors[part] = std::current_exception();
    }
  });
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  return parts;
}

}  // namespace lathe
