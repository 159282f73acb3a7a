#include "lathe/core/cache_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "lathe/core/test_folder.h"

namespace lathe {
namespace {

class CacheFile : public testing::Test {
 protected:
  CacheFile() { setenv("XDG_CACHE_HOME", home_.c_str(), 1); }
  ~CacheFile() override { unsetenv("XDG_CACHE_HOME"); }
  TestFolder folder_;
  const std::string home_ = folder_ / "cache";  // which is not there yet
};

TEST_F(CacheFile, IsReadAsItWasWritten) {
  const std::string path = cache_path("a.txt");
  EXPECT_EQ(path, home_ + "/lathe/a.txt");
  EXPECT_EQ(read_cache(path), "");  // there is none yet
  write_cache(path, "one\n");
  write_cache(path, "two\nlines\n");
  EXPECT_EQ(read_cache(path), "two\nlines\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(home_ + "/lathe"), {}),
            1);  // no temporary is left
}

TEST_F(CacheFile, AFolderThatCannotBeMadeIsNoFault) {
  write_cache("/proc/lathe/a.txt", "one\n");
  EXPECT_EQ(read_cache("/proc/lathe/a.txt"), "");
  write_cache("", "one\n");
}

}  // namespace
}  // namespace lathe
