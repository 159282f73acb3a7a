#include "lathe/backends/cpu/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
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

}  // namespace
}  // namespace lathe::cpu
