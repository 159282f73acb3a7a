#include "lathe/app/terminal/signals.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

namespace lathe {
namespace {

/// None is ignored, as nohup has it for whom it starts.
class StopSignalsTest : public testing::Test {
 protected:
  StopSignalsTest() {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_DFL);
  }
  ~StopSignalsTest() override { const StopSignals forgotten; }  // the next test is not asked to stop
};
using StopSignalsDeathTest = StopSignalsTest;

TEST_F(StopSignalsTest, AreRememberedWhileSomebodyAsks) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const StopSignals signals;
    EXPECT_EQ(stop_signal(), 0);
    raise(signal);
    EXPECT_EQ(stop_signal(), signal);
  }
}

TEST_F(StopSignalsTest, LastUntilTheLastOfThemIsGone) {
  auto outer = std::make_unique<StopSignals>();
  const auto inner = std::make_unique<StopSignals>();
  outer.reset();
  raise(SIGTERM);
  EXPECT_EQ(stop_signal(), SIGTERM);
}

TEST_F(StopSignalsTest, ThatComeTogetherAreOneRequest) {
  const StopSignals signals;
  for (const int signal : {SIGTERM, SIGTERM, SIGINT, SIGTERM}) raise(signal);
  EXPECT_EQ(stop_signal(), SIGTERM);
}

TEST_F(StopSignalsTest, ThatAreIgnoredStayIgnored) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    const auto before = signal(number, SIG_IGN);
    {
      const StopSignals signals;
      raise(number);
      EXPECT_EQ(stop_signal(), 0);
    }
    EXPECT_EQ(signal(number, before), SIG_IGN);
  }
}

TEST_F(StopSignalsDeathTest, ASecondOneEndsTheProcess) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto twice = [signal] {
      const StopSignals signals;
      raise(signal);
      std::this_thread::sleep_for(std::chrono::milliseconds(1100));
      raise(signal);
    };
    EXPECT_EXIT(twice(), testing::KilledBySignal(signal), "");
  }
}

TEST_F(StopSignalsDeathTest, TheEndIsThatOfTheSignal) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const StopSignals signals;
    EXPECT_EXIT(end_by_signal(signal), testing::KilledBySignal(signal), "");
  }
}

TEST_F(StopSignalsDeathTest, BehindThemASignalEndsTheProcess) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto behind = [signal] {
      { const StopSignals signals; }
      raise(signal);
    };
    EXPECT_EXIT(behind(), testing::KilledBySignal(signal), "");
  }
}

TEST_F(StopSignalsDeathTest, WhatNobodyAskedAboutIsNotLost) {
  const auto unasked = [] {
    const StopSignals outer;
    const StopSignals inner;
    raise(SIGTERM);
  };
  EXPECT_EXIT(unasked(), testing::KilledBySignal(SIGTERM), "");
}

TEST_F(StopSignalsTest, AnErrorThatEndsTheWorkHasTheLastWord) {
  const auto ended = [] {
    const StopSignals signals;
    raise(SIGTERM);
    throw std::runtime_error("stopped, as another rank was asked to");
  };
  EXPECT_THROW(ended(), std::runtime_error);
}

}  // namespace
}  // namespace lathe
