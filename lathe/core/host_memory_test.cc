#include "lathe/core/host_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lathe/core/test_folder.h"

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
    const char* volatile seen = touched.data();  // clang knows what it would read, and leaves the memory out
    EXPECT_EQ(seen[kBytes / 2], 1);
  }
  EXPECT_GE(*peak_resident_bytes(), std::max<uint64_t>(*before, kBytes));
}

constexpr uint64_t kMiB = uint64_t{1} << 20;

class CgroupMemory : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_.path() + path).parent_path());
    std::ofstream(root_.path() + path) << text;
  }
  /// A machine of 1000 MiB, 800 of them free, and 50 MiB of swap.
  HostMemory memory(const std::string& cgroups, const std::string& mounts) const {
    return host_memory("MemTotal: 1024000 kB\nMemFree: 1 kB\nMemAvailable: 819200 kB\nSwapFree: 51200 kB\n",
                       cgroups, mounts, root_.path());
  }
  TestFolder root_;
};

const char* const kV2 = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
const char* const kV1 = "32 31 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

TEST_F(CgroupMemory, WithoutLimitTheMachineCountsAndSwapCanBeReached) {
  write("/sys/fs/cgroup/a/memory.max", "max\n");
  write("/sys/fs/cgroup/a/memory.current", "1000\n");
  for (const char* cgroups : {"0::/a\n", "0::/\n", ""}) {
    const HostMemory m = memory(cgroups, kV2);
    EXPECT_EQ(m.total, 1000 * kMiB);
    EXPECT_EQ(m.free, 800 * kMiB);
    EXPECT_EQ(m.reachable, 850 * kMiB);
  }
  EXPECT_FALSE(host_memory("", "", "").free);
  EXPECT_FALSE(host_memory("", "", "").reachable);
}

TEST_F(CgroupMemory, TheTightestCgroupAboveCountsAndPagesOfFilesAreFree) {
  write("/sys/fs/cgroup/a/memory.max", std::to_string(500 * kMiB));
  write("/sys/fs/cgroup/a/memory.current", std::to_string(300 * kMiB));
  write("/sys/fs/cgroup/a/memory.stat", "anon 7\ninactive_file 52428800\nactive_file 104857600\n");
  write("/sys/fs/cgroup/a/b/memory.max", std::to_string(600 * kMiB));
  write("/sys/fs/cgroup/a/b/memory.current", std::to_string(100 * kMiB));
  const HostMemory m = memory("0::/a/b\n", kV2);
  EXPECT_EQ(m.total, 500 * kMiB);
  EXPECT_EQ(m.free, 350 * kMiB);  // 500 - (300 - 150)
  EXPECT_EQ(m.reachable, 400 * kMiB);
}

TEST_F(CgroupMemory, TheFirstVersionReadsItsOwnFiles) {
  write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", std::to_string(200 * kMiB));
  write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", std::to_string(150 * kMiB));
  write("/sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 10485760\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1");
  const HostMemory m = memory("4:memory:/job\n0::/\n", kV1);
  EXPECT_EQ(m.total, 200 * kMiB);
  EXPECT_EQ(m.free, 60 * kMiB);
  EXPECT_EQ(memory("4:cpu:/job\n", kV1).free, 800 * kMiB);
}

TEST_F(CgroupMemory, SwapCountsAsFarAsItIsGranted) {
  write("/sys/fs/cgroup/memory.max", std::to_string(100 * kMiB));
  write("/sys/fs/cgroup/memory.current", std::to_string(10 * kMiB));
  EXPECT_EQ(memory("0::/\n", kV2).reachable, 140 * kMiB);
  write("/sys/fs/cgroup/memory.swap.max", std::to_string(30 * kMiB));
  write("/sys/fs/cgroup/memory.swap.current", std::to_string(10 * kMiB));
  EXPECT_EQ(memory("0::/\n", kV2).reachable, 110 * kMiB);
  write("/sys/fs/cgroup/memory.swap.max", "0\n");
  EXPECT_EQ(memory("0::/\n", kV2).reachable, 90 * kMiB);
  write("/sys/fs/cgroup/memory.swap.max", "max\n");
  EXPECT_EQ(memory("0::/\n", kV2).reachable, 140 * kMiB);
}

TEST_F(CgroupMemory, SwapMayBeLimitedAlone) {
  write("/sys/fs/cgroup/a/memory.max", "max\n");
  write("/sys/fs/cgroup/a/memory.current", "1\n");
  write("/sys/fs/cgroup/a/memory.swap.max", "0\n");
  write("/sys/fs/cgroup/a/memory.swap.current", "0\n");
  EXPECT_EQ(memory("0::/a/b\n", kV2).reachable, 800 * kMiB);
}

TEST_F(CgroupMemory, TheFirstVersionGrantsSwapAndMemoryTogether) {
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(100 * kMiB));
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(60 * kMiB));
  write("/sys/fs/cgroup/memory/memory.stat", "total_active_file " + std::to_string(10 * kMiB) + "\n");
  EXPECT_EQ(memory("4:memory:/\n", kV1).reachable, 100 * kMiB);
  write("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", std::to_string(120 * kMiB));
  write("/sys/fs/cgroup/memory/memory.memsw.usage_in_bytes", std::to_string(65 * kMiB));
  EXPECT_EQ(memory("4:memory:/\n", kV1).reachable, 65 * kMiB);  // 120 - (65 - 10)
}

TEST_F(CgroupMemory, WhereTheSystemSlowsAProcessDownIsALimit) {
  write("/sys/fs/cgroup/memory.max", "max\n");
  write("/sys/fs/cgroup/memory.high", std::to_string(300 * kMiB));
  write("/sys/fs/cgroup/memory.current", std::to_string(100 * kMiB));
  EXPECT_EQ(memory("0::/\n", kV2).free, 200 * kMiB);
  write("/sys/fs/cgroup/memory.max", std::to_string(250 * kMiB));
  EXPECT_EQ(memory("0::/\n", kV2).free, 150 * kMiB);
}

TEST_F(CgroupMemory, MoreInUseThanTheLimitLeavesNothing) {
  write("/sys/fs/cgroup/memory.max", "100");
  write("/sys/fs/cgroup/memory.current", "200");
  EXPECT_EQ(memory("0::/\n", kV2).free, 0u);
}

}  // namespace
}  // namespace lathe
