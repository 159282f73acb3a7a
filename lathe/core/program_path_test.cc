#include "lathe/core/program_path.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace lathe {
namespace {

TEST(PartPlaces, BesideTheProgramTheFolderOfTheEnvironmentAndThatOfThePackage) {
  const std::vector<std::string> own = part_places("part.so");
  ASSERT_FALSE(own.empty());
  EXPECT_EQ(own[0], program_folder() + "/part.so");
  for (int twice = 0; twice < 2; ++twice) EXPECT_TRUE(add_part_folder("/package/lib/lathe"));
  setenv("LATHE_PARTS", "/named", 1);
  std::vector<std::string> wanted = own;
  wanted.insert(wanted.begin(), "/named/part.so");
  wanted.push_back("/package/lib/lathe/part.so");
  EXPECT_EQ(part_places("part.so"), wanted);
  unsetenv("LATHE_PARTS");
}

}  // namespace
}  // namespace lathe
