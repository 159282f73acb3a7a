#include "lathe/app/signals.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <stdexcept>
#include <utility>

namespace lathe {
namespace {

TEST(StopSignals, AreRememberedWhileSomebodyAsks) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const StopSignals signals;
    EXPECT_EQ(stop_signal(), 0);
    raise(signal);
    EXPECT_EQ(stop_signal(), signal);
  }
}

TEST(StopSignals, LastUntilTheLastOfThemIsGone) {
  auto outer = std::make_unique<StopSignals>();
  const auto inner = std::make_unique<StopSignals>();
  outer.reset();
  raise(SIGTERM);
  EXPECT_EQ(stop_signal(), SIGTERM);
}

TEST(StopSignalsDeathTest, ASecondOneEndsTheProcess) {
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    const auto twice = [number = signal] {
      const StopSignals signals;
      raise(number);
      raise(number);
    };
    EXPECT_EXIT(twice(), testing::ExitedWithCode(code), "");
  }
}

TEST(StopSignalsDeathTest, BehindThemASignalEndsTheProcess) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto behind = [signal] {
      { const StopSignals signals; }
      raise(signal);
    };
    EXPECT_EXIT(behind(), testing::KilledBySignal(signal), "");
  }
}

TEST(StopSignalsDeathTest, WhatNobodyAskedAboutIsNotLost) {
  const auto unasked = [] {
    const StopSignals outer;
    const StopSignals inner;
    raise(SIGTERM);
  };
  EXPECT_EXIT(unasked(), testing::KilledBySignal(SIGTERM), "");
}

TEST(StopSignals, AnErrorThatEndsTheWorkHasTheLastWord) {
  const auto ended = [] {
    const StopSignals signals;
    raise(SIGTERM);
    throw std::runtime_error("stopped, as another rank was asked to");
  };
  EXPECT_THROW(ended(), std::runtime_error);
}

}  // namespace
}  // namespace lathe
