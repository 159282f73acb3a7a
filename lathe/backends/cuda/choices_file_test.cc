#include "lathe/backends/cuda/choices_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace lathe::cuda {
namespace {

class ChoicesFile : public testing::Test {
 protected:
  ChoicesFile() {
    folder_ = std::filesystem::temp_directory_path() / ("lathe_choices_" + std::to_string(getpid()));
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  ~ChoicesFile() override {
    unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path folder_;
};

TEST_F(ChoicesFile, IsReadAsItWasWritten) {
  const std::string path = choices_path();
  EXPECT_EQ(path, folder_ / "lathe" / "cuda_products.txt");
  EXPECT_EQ(read_choices(path), "");  // there is none yet
  write_choices(path, "one\n");
  write_choices(path, "two\nlines\n");
  EXPECT_EQ(read_choices(path), "two\nlines\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / "lathe"), {}), 1);  // nothing beside
}

TEST_F(ChoicesFile, AFolderThatCannotBeMadeIsNoFault) {
  write_choices("/proc/lathe/cuda_products.txt", "one\n");
  EXPECT_EQ(read_choices("/proc/lathe/cuda_products.txt"), "");
  write_choices("", "one\n");
}

}  // namespace
}  // namespace lathe::cuda
