#include "lathe/backends/cpu/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace lathe::cpu {
namespace {

TEST(WriteZeros, WritesTheseBytesAndNoOthers) {
  for (size_t begin = 0; begin <= 64; begin += 4)
    for (const size_t bytes : {0, 1, 4, 60, 64, 68, 127, 128, 130, 192, 1000}) {
      std::vector<char> memory(1200, 'x');
      write_zeros(memory.data() + begin, bytes);
      const auto first = memory.begin() + static_cast<long>(begin), last = first + static_cast<long>(bytes);
      EXPECT_EQ(std::count(memory.begin(), first, 'x'), first - memory.begin());
      EXPECT_EQ(std::count(first, last, 0), last - first) << begin << ", " << bytes;
      EXPECT_EQ(std::count(last, memory.end(), 'x'), memory.end() - last) << begin << ", " << bytes;
    }
}

#if defined(__linux__)
/// The advice that the system has for the memory at `at`, of proc(5)'s VmFlags: "hg": use big pages; "nh": do
/// not.  "" where the system does not say.
std::string advice_on(const void* at) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2)
      here = begin <= address && address < end;
    if (!here || !line.starts_with("VmFlags:")) continue;
    for (const char* flag : {"hg", "nh"})
      if (line.find(std::string(" ") + flag) != line.npos) return flag;
  }
  return "";
}

/// Skipped where an emulator ignores the advice, or the system has no big pages.
bool advice_is_told() {
  constexpr size_t kBytes = size_t{4} << 20;
  void* const probe = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) return false;
  madvise(probe, kBytes, MADV_HUGEPAGE);
  const bool told = advice_on(probe) == "hg";
  munmap(probe, kBytes);
  return told;
}

TEST(AllocateZeroed, AsksForBigPagesUnlessToldOtherwise) {
  if (!advice_is_told()) GTEST_SKIP() << "this system tells nothing of big pages";
  constexpr size_t kBigPage = size_t{2} << 20, kBytes = 8 * kBigPage, kHalf = kBytes / 2;
  const auto memory = allocate_zeroed(kBytes);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % kBigPage, 0U);
  EXPECT_EQ(advice_on(memory.get()), "hg");
  EXPECT_EQ(advice_on(memory.get() + kBytes - 1), "hg");
  prefer_small_pages(memory.get() + kHalf, kHalf);
  EXPECT_EQ(advice_on(memory.get()), "hg");
  EXPECT_EQ(advice_on(memory.get() + kHalf), "nh");
}
#endif

}  // namespace
}  // namespace lathe::cpu
