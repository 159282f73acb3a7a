#include "lathe/backends/cpu/memory.h"

#include <sys/mman.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "lathe/core/ceil_div.h"

namespace lathe::cpu {
namespace {

constexpr size_t kCacheLine = 64, kBigPage = size_t{2} << 20;

/// Fresh pages are zero: the system provides them at the first touch, near the thread that works on them.
std::shared_ptr<std::byte> map_pages(size_t bytes) {
  const size_t mapped = round_up(bytes, kBigPage) + kBigPage;
  void* begin = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) return nullptr;
  auto* data =
      static_cast<std::byte*>(begin) + (kBigPage - reinterpret_cast<uintptr_t>(begin) % kBigPage) % kBigPage;
#if defined(MADV_HUGEPAGE)
  madvise(data, round_up(bytes, kBigPage), MADV_HUGEPAGE);  // only advice: without it all works, but slower
#endif
  return {data, [begin, mapped](std::byte*) { munmap(begin, mapped); }};
}

}  // namespace

std::shared_ptr<std::byte> allocate_zeroed(size_t bytes) {
  if (bytes >= 2 * kBigPage) return map_pages(bytes);
  const size_t padded = round_up(bytes + 1, kCacheLine);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kCacheLine, padded));
  if (data == nullptr) return nullptr;
  std::memset(data, 0, padded);
  return {data, [](std::byte* p) { std::free(p); }};
}

void prefer_small_pages(void* begin, size_t bytes) {
#if defined(MADV_NOHUGEPAGE)
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = round_up(reinterpret_cast<uintptr_t>(begin), page);
  const auto last = (reinterpret_cast<uintptr_t>(begin) + bytes) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_NOHUGEPAGE);  // only advice
#else
  (void)begin, (void)bytes;
#endif
}

void write_zeros(void* to, size_t bytes) {
#if defined(__SSE2__)
  char* at = static_cast<char*>(to);
  const size_t before =
      std::min(bytes, (kCacheLine - reinterpret_cast<uintptr_t>(to) % kCacheLine) % kCacheLine);
  char* const end = at + before + (bytes - before) / kCacheLine * kCacheLine;
  std::memset(at, 0, before);
  for (at += before; at < end; at += kCacheLine)
    for (size_t i = 0; i < kCacheLine; i += sizeof(__m128i))
      _mm_stream_si128(reinterpret_cast<__m128i*>(at + i), _mm_setzero_si128());
  std::memset(end, 0, (bytes - before) % kCacheLine);
  _mm_sfence();  // so other threads see the zeros before what this thread writes next
#else
  std::memset(to, 0, bytes);
#endif
}

}  // namespace lathe::cpu
