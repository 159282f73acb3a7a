#include "lathe/core/host_memory.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(HostMemory, FreeIsSomeOfAll) {
  const HostMemory memory = host_memory();
  ASSERT_TRUE(memory.total && memory.free);
  EXPECT_GT(*memory.free, uint64_t{0});
  EXPECT_LT(*memory.free, *memory.total);
  EXPECT_GT(*memory.total, uint64_t{64} << 20);  // kB were taken for what they are
}

}  // namespace
}  // namespace lathe
