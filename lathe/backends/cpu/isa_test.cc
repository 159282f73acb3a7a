#include "lathe/backends/cpu/isa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "lathe/core/error.h"

namespace lathe::cpu {
namespace {

class IsaEnv : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* value = std::getenv("LATHE_ISA");
    if (value != nullptr) saved_ = value;
  }
  void TearDown() override {
    if (saved_.empty())
      unsetenv("LATHE_ISA");
    else
      setenv("LATHE_ISA", saved_.c_str(), 1);
  }
  std::string saved_;
};

TEST(Isa, LevelsAreAscendingAndStartWithPortable) {
  const auto levels = available_isas();
  ASSERT_FALSE(levels.empty());
  EXPECT_EQ(levels.front(), Isa::kPortable);
  EXPECT_TRUE(std::is_sorted(levels.begin(), levels.end()));
#if defined(__x86_64__)
  EXPECT_EQ(std::count(levels.begin(), levels.end(), Isa::kAvx512) != 0,
            __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"));
  EXPECT_EQ(std::count(levels.begin(), levels.end(), Isa::kAvx2) != 0,
            __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
#elif defined(__aarch64__)
  EXPECT_EQ(std::count(levels.begin(), levels.end(), Isa::kNeon), 1);
#endif
}

TEST_F(IsaEnv, UnsetOrEmptyChoosesTheBest) {
  unsetenv("LATHE_ISA");
  EXPECT_EQ(chosen_isa(), available_isas().back());
  setenv("LATHE_ISA", "", 1);
  EXPECT_EQ(chosen_isa(), available_isas().back());
}

TEST_F(IsaEnv, NamesChooseEveryAvailableLevel) {
  for (Isa isa : available_isas()) {
    setenv("LATHE_ISA", std::string(name_of(isa)).c_str(), 1);
    EXPECT_EQ(chosen_isa(), isa);
  }
}

TEST_F(IsaEnv, WrongNamesAreUsageErrorsThatListTheLevels) {
  // No machine runs both families.
  const Isa foreign = available_isas().back() >= Isa::kNeon ? Isa::kAvx2 : Isa::kNeonBf16;
  for (std::string wish : {std::string("sse9"), std::string(name_of(foreign))}) {
    setenv("LATHE_ISA", wish.c_str(), 1);
    try {
      chosen_isa();
      FAIL() << wish;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUsage);
      EXPECT_NE(std::string(e.what()).find(wish), std::string::npos);
      EXPECT_NE(std::string(e.what()).find("portable"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace lathe::cpu
