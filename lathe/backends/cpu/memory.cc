#include "lathe/backends/cpu/memory.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <cstdlib>
#include <cstring>

namespace lathe::cpu {
namespace {
constexpr size_t kCacheLine = 64, kBigPage = size_t{2} << 20;
}

std::shared_ptr<std::byte> allocate_zeroed(size_t bytes) {
  const size_t alignment = bytes >= 2 * kBigPage ? kBigPage : kCacheLine;
  const size_t padded = (bytes + alignment) / alignment * alignment;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(alignment, padded));
  if (data == nullptr) return nullptr;
#if defined(MADV_HUGEPAGE)
  if (alignment == kBigPage) madvise(data, padded, MADV_HUGEPAGE);  // advice: without it all works, slower
#endif
  std::memset(data, 0, padded);
  return {data, [](std::byte* p) { std::free(p); }};
}

}  // namespace lathe::cpu
