#include "lathe/app/signals.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace lathe {
namespace {

TEST(StopSignals, FirstOneIsRemembered) {
  struct sigaction old_int, old_term;
  sigaction(SIGINT, nullptr, &old_int);
  sigaction(SIGTERM, nullptr, &old_term);
  install_stop_signals();
  EXPECT_EQ(stop_signal(), 0);
  raise(SIGTERM);
  EXPECT_EQ(stop_signal(), SIGTERM);
  clear_stop_signal();
  raise(SIGINT);
  EXPECT_EQ(stop_signal(), SIGINT);
  clear_stop_signal();
  sigaction(SIGINT, &old_int, nullptr);
  sigaction(SIGTERM, &old_term, nullptr);
}

TEST(StopSignalsDeathTest, ASecondInterruptEndsTheProcessWith130) {
  const auto interrupt_twice = [] {
    install_stop_signals();
    raise(SIGINT);
    raise(SIGINT);
  };
  EXPECT_EXIT(interrupt_twice(), testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace lathe
