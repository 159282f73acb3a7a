#include "lathe/program/kernel_choices.h"

#include <gtest/gtest.h>

#include "lathe/core/error.h"

namespace lathe {
namespace {

/// Verdicts on "good" and "bad"; both are offered, and "new".
std::unique_ptr<KernelChoices> choices(const std::string& setting = "", bool turned = false) {
  KernelVerdicts verdicts;
  verdicts.set(turned ? "bad" : "good", {true, 10, 20});
  verdicts.set(turned ? "good" : "bad", {true, 20, 10});
  auto all = std::make_unique<KernelChoices>(verdicts, setting);
  for (const char* key : {"good", "bad", "new"}) all->offer(key);
  return all;
}

TEST(KernelChoices, TheVerdictDecidesWhereNoRunGoesOn) {
  const auto all = choices();
  EXPECT_TRUE(all->use("good"));
  EXPECT_FALSE(all->use("bad"));
  EXPECT_FALSE(all->use("new"));
  EXPECT_EQ(KernelChoices({}, "").text(), "");
}

TEST(KernelChoices, ARunThatGoesOnDecidesAgainstOtherVerdicts) {
  const auto again = choices("", true);
  again->adopt(choices()->text());
  EXPECT_TRUE(again->use("good"));
  EXPECT_FALSE(again->use("bad"));
  EXPECT_EQ(again->text(), choices()->text());
}

TEST(KernelChoices, WhatARunDidNotKnowIsLeftToItsVerdict) {
  KernelVerdicts verdicts;
  verdicts.set("good", {true, 10, 20});
  KernelChoices older(verdicts, "");
  older.offer("of another chip");
  const auto all = choices();
  for (const std::string& text :
       {older.text(), std::string(), std::string("cublaslt 130100 NVIDIA H200\n1 2 3\n")}) {
    all->adopt(text);
    EXPECT_EQ(all->text(), choices()->text()) << text;
  }
}

TEST(KernelChoices, ASettingDecidesByItself) {
  const auto none = choices("none"), every = choices("all");
  none->adopt(choices("all")->text());
  every->adopt(choices("none")->text());
  for (const char* key : {"good", "bad", "new"}) {
    EXPECT_FALSE(none->use(key)) << key;
    EXPECT_TRUE(every->use(key)) << key;
  }
}

TEST(KernelChoices, ABrokenTextIsAnErrorAndChangesNothing) {
  for (const char* line : {"used good", "sometimes\tgood", "", "unused"}) {
    const auto all = choices();
    try {
      all->adopt("own kernels\nunused\tgood\n" + std::string(line) + "\n");
      FAIL() << line;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidData) << line;
      EXPECT_NE(std::string(error.what()).find("\"" + std::string(line) + "\""), std::string::npos)
          << error.what();
    }
    EXPECT_TRUE(all->use("good")) << line;
  }
}

}  // namespace
}  // namespace lathe
