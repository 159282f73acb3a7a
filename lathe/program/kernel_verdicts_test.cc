#include "lathe/program/kernel_verdicts.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "lathe/core/error.h"

namespace lathe {
namespace {

constexpr const char* kKey = "Apple M1, MLX 0.32.4, some_op 00ff";

TEST(KernelVerdicts, OnlyWhatIsRightAndFasterIsUsed) {
  KernelVerdicts verdicts;
  EXPECT_FALSE(verdicts.use(kKey, ""));
  verdicts.set(kKey, {true, 10, 20});
  EXPECT_TRUE(verdicts.use(kKey, ""));
  EXPECT_FALSE(verdicts.use("Apple M2, MLX 0.32.4, some_op 00ff", ""));
  verdicts.set(kKey, {true, 20, 20});
  EXPECT_FALSE(verdicts.use(kKey, ""));
  verdicts.set(kKey, {false, 10, 20});
  EXPECT_FALSE(verdicts.use(kKey, ""));
}

TEST(KernelVerdicts, ASettingDecidesByItself) {
  KernelVerdicts verdicts;
  verdicts.set(kKey, {true, 10, 20});
  EXPECT_FALSE(verdicts.use(kKey, "none"));
  verdicts.set(kKey, {false, 10, 20});
  EXPECT_TRUE(verdicts.use(kKey, "all"));
  EXPECT_TRUE(verdicts.use("of which nothing is known", "all"));
}

TEST(KernelVerdicts, AMisspeltSettingIsAnError) {
  const auto setting = [](const char* value) {
    setenv(kKernelSetting, value, 1);
    const struct Unset {
      ~Unset() { unsetenv(kKernelSetting); }
    } unset;
    return kernel_setting();
  };
  EXPECT_EQ(kernel_setting(), "");
  for (const char* right : {"", "all", "none"}) EXPECT_EQ(setting(right), right);
  try {
    setting("nome");
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_STREQ(error.what(), "LATHE_MPS_KERNELS: found 'nome', expected all or none");
  }
}

TEST(KernelVerdicts, TheTextGivesThemBack) {
  KernelVerdicts verdicts;
  verdicts.set(kKey, {true, 10.25, 20});
  verdicts.set("slow", {true, 3, 2});
  verdicts.set("wrong", {false, 1, 2});
  const KernelVerdicts again = KernelVerdicts::parse(verdicts.text());
  EXPECT_EQ(again.text(), verdicts.text());
  EXPECT_TRUE(again.use(kKey, ""));
  EXPECT_FALSE(again.use("slow", ""));
  EXPECT_FALSE(again.use("wrong", ""));
}

TEST(KernelVerdicts, BrokenLinesSayNothing) {
  const KernelVerdicts verdicts = KernelVerdicts::parse(
      "\nfine\t1\t2\ta\nright\tx\t2\tb\nright\t1\nright\t1\t2\t\nright\t-1\t2\tc\nright 1 2 "
      "d\nright\t1\t2\te\nright\t1");
  EXPECT_EQ(verdicts.text(), "right\t1\t2\te\n");
}

}  // namespace
}  // namespace lathe
