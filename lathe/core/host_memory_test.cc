#include "lathe/core/host_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace lathe {
namespace {

TEST(HostMemory, FreeIsSomeOfAll) {
  const HostMemory memory = host_memory();
  ASSERT_TRUE(memory.total && memory.free);
  EXPECT_GT(*memory.free, uint64_t{0});
  EXPECT_LT(*memory.free, *memory.total);
  EXPECT_GT(*memory.total, uint64_t{64} << 20);  // kB were taken for what they are
}

TEST(HostMemory, PeakGrowsWithWhatIsTouchedAndStays) {
  const auto before = peak_resident_bytes();
  ASSERT_TRUE(before);
  constexpr size_t kBytes = size_t{256} << 20;
  {
    std::vector<char> touched(kBytes, 1);
    EXPECT_EQ(touched[kBytes / 2], 1);
  }
  EXPECT_GE(*peak_resident_bytes(), std::max<uint64_t>(*before, kBytes));
}

}  // namespace
}  // namespace lathe
