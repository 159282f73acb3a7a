#include "lathe/app/terminal/terminal.h"

#include <gtest/gtest.h>

#include "lathe/app/screen_testing.h"

namespace lathe {
namespace {

TEST(ProgressBar, ShowsShareRateTimesAndLoss) {
  ProgressBar bar("", 345, 0, 100.0);
  EXPECT_TRUE(bar.update(155, 0.45321, 112.0));
  EXPECT_EQ(bar.line(80, false, 112.0),
            " 44%|############                | 155/345 [00:12<00:14, 12.92it/s, loss=0.4532]");
  EXPECT_EQ(bar.line(80, false, 112.0).size(), 80u);
  EXPECT_EQ(bar.line(60, false, 112.0), " 44%|###     | 155/345 [00:12<00:14, 12.92it/s, loss=0.4532]");
  EXPECT_EQ(bar.line(50, false, 112.0), " 44% 155/345 [00:12<00:14, 12.92it/s, loss=0.4532]");
  EXPECT_EQ(bar.line(49, false, 112.0), " 44%|####      | 155/345 [00:12<00:14, 12.92it/s]");
  EXPECT_EQ(bar.line(39, false, 112.0), " 44% 155/345 [00:12<00:14, 12.92it/s]");
  EXPECT_EQ(bar.line(12, false, 112.0), " 44% 155/345");
  EXPECT_EQ(bar.line(0, false, 112.0), "");
}

TEST(ProgressBar, DrawnTenTimesASecondAndAtTheEnd) {
  ProgressBar bar("", 100, 0, 0.0);
  int draws = 0;
  for (int step = 1; step <= 100; ++step) draws += bar.update(step, {}, 0.005 * step);
  EXPECT_LE(draws, 6 + 1);  // 0.5 s: the first at once, five more, the last step
  EXPECT_GE(draws, 5);
}

TEST(ProgressBar, SlowStepsAndUnknownRates) {
  ProgressBar bar("Evaluating", 4, 0, 0.0);
  EXPECT_NE(bar.line(80, false, 0.0).find("0/4 [00:00<?, ?it/s]"), std::string::npos);
  bar.update(1, {}, 2.0);
  EXPECT_NE(bar.line(80, false, 2.0).find("Evaluating:  25%|"), std::string::npos);
  EXPECT_NE(bar.line(80, false, 2.0).find("[00:02<00:06, 2.00s/it]"), std::string::npos);
  EXPECT_EQ(clock_text(3725), "1:02:05");
}

TEST(ProgressBar, ResumedRunsDoNotCountWhatWasDoneBefore) {
  ProgressBar bar("", 200, 100, 0.0);
  bar.update(110, {}, 1.0);
  EXPECT_NE(bar.line(80, false, 1.0).find("110/200 [00:01<00:09, 10.00it/s]"), std::string::npos);
}

TEST(ProgressBar, BytesInPowersOfAThousand) {
  EXPECT_EQ(byte_text(999), "999B");
  EXPECT_EQ(byte_text(1000), "1.00kB");
  EXPECT_EQ(byte_text(91234567), "91.2MB");
  EXPECT_EQ(byte_text(999999), "1.00MB");
  EXPECT_EQ(byte_text(438e6), "438MB");
  ProgressBar bar("model.safetensors", 400'000'000, 0, 0.0, ProgressUnit::kBytes);
  bar.update(100'000'000, {}, 10.0);
  EXPECT_NE(bar.line(90, false, 10.0).find(" 100MB/400MB [00:10<00:30, 10.0MB/s]"), std::string::npos);
}

TEST(ProgressBar, EighthsOfACellWhereTheLocaleHasThem) {
  ProgressBar bar("", 8, 0, 0.0);
  bar.update(1, {}, 1.0);
  // 12 % of 4 cells is half a cell.
  const std::string line =
      bar.line(static_cast<int>(std::string(" 12%| | 1/8 [00:01<00:07, 1.00it/s]").size()) + 3, true, 1.0);
  EXPECT_EQ(line, " 12%|▌   | 1/8 [00:01<00:07, 1.00it/s]");
}

TEST(Terminal, DropsMessagesBelowTheLevel) {
  Screen screen;
  Terminal terminal(LogLevel::kWarning, true, screen.port());
  terminal.log(LogLevel::kInfo, "quiet");
  terminal.sink()(LogLevel::kWarning, "loud");
  EXPECT_EQ(screen.err, "[WARNING] loud\n");
}

TEST(Terminal, WithoutATerminalThereIsNoBar) {
  Screen screen;
  Terminal terminal(LogLevel::kInfo, true, screen.port(false));
  terminal.begin_progress("", 10);
  terminal.update_progress(5, 0.5);
  terminal.print("{'loss': 0.5}");
  terminal.end_progress();
  EXPECT_EQ(screen.err, "");
  EXPECT_EQ(screen.out, "{'loss': 0.5}\n");
}

TEST(Terminal, WithoutATerminalProgressIsALineEvery30Seconds) {
  Screen screen;
  Terminal terminal(LogLevel::kInfo, true, screen.port(false));
  screen.now = 100;
  terminal.begin_progress("", 600, 100);
  for (int step = 101; step <= 600; ++step) {
    screen.now += 0.25;
    terminal.update_progress(step, 0.5 + 0.001 * step);
  }
  terminal.end_progress();
  EXPECT_EQ(screen.err,
            "[INFO] step 220 of 600, loss 0.72, 4.00it/s, 01:35 left\n"
            "[INFO] step 340 of 600, loss 0.84, 4.00it/s, 01:05 left\n"
            "[INFO] step 460 of 600, loss 0.96, 4.00it/s, 00:35 left\n"
            "[INFO] step 580 of 600, loss 1.08, 4.00it/s, 00:05 left\n");
}

TEST(Terminal, WithoutATerminalAShortRunSaysNothingAndInnerWorkItsShare) {
  Screen screen;
  Terminal terminal(LogLevel::kInfo, true, screen.port(false));
  terminal.begin_progress("", 10);
  screen.now = 29.9;
  terminal.update_progress(10);
  EXPECT_EQ(screen.err, "");
  terminal.begin_progress("evaluation", 8);
  screen.now = 31.9;
  terminal.update_progress(2);
  terminal.end_progress();
  EXPECT_EQ(screen.err, "[INFO] evaluation: 2 of 8, 1.00it/s, 00:06 left\n");
  terminal.begin_progress("model.bin", 1000'000'000, 0, ProgressUnit::kBytes);
  screen.now += 50;
  terminal.update_progress(250'000'000);
  EXPECT_TRUE(screen.err.ends_with("[INFO] model.bin: 250MB of 1.00GB, 5.00MB/s, 02:30 left\n"))
      << screen.err;
}

TEST(Terminal, WithoutATerminalFlagsTurnTheLinesOff) {
  const auto said = [](LogLevel level, bool progress) {
    Screen screen;
    Terminal terminal(level, progress, screen.port(false));
    terminal.begin_progress("", 10);
    screen.now = 60;
    terminal.update_progress(5);
    return screen.err;
  };
  EXPECT_EQ(said(LogLevel::kInfo, true), "[INFO] step 5 of 10, 12.00s/it, 01:00 left\n");
  EXPECT_EQ(said(LogLevel::kWarning, true), "");
  EXPECT_EQ(said(LogLevel::kInfo, false), "");
}

TEST(Terminal, FlagsDecideWhetherThereIsABar) {
  const auto draws = [](std::optional<bool> disable, const std::string& level) {
    Screen screen;
    TrainingArguments args;
    args.disable_tqdm = disable;
    args.log_level = level;
    Terminal terminal(args, screen.port());
    terminal.begin_progress("", 10);
    return !screen.err.empty();
  };
  EXPECT_TRUE(draws({}, "passive"));
  EXPECT_FALSE(draws(true, "passive"));
  EXPECT_FALSE(draws({}, "error"));
  EXPECT_TRUE(draws(false, "error"));
}

TEST(Terminal, TextStandsAboveTheBar) {
  Screen screen;
  Terminal terminal(LogLevel::kInfo, true, screen.port());
  terminal.begin_progress("", 10);
  screen.now = 1;
  terminal.update_progress(5);
  screen.err.clear();
  terminal.log(LogLevel::kInfo, "hello");
  // wiped, written, drawn again
  EXPECT_EQ(screen.err.find("\r\x1b[K[INFO] hello\n\r 50%|"), 0u) << screen.err;
  screen.err.clear();
  terminal.end_progress();
  EXPECT_TRUE(screen.err.ends_with("\x1b[K\n")) << screen.err;
}

TEST(Terminal, WhatComesBehindABarThatWasBrokenOffBeginsALine) {
  Screen screen;
  for (const int bars : {1, 2}) {
    {
      Terminal terminal(LogLevel::kInfo, true, screen.port());
      for (int i = 0; i < bars; ++i) terminal.begin_progress("", 10);
    }
    EXPECT_TRUE(screen.err.ends_with("\x1b[K\n")) << screen.err;
  }
  screen.err.clear();
  {
    Terminal terminal(LogLevel::kInfo, true, screen.port());
    terminal.begin_progress("", 10);
    terminal.end_progress();
    screen.err.clear();
  }
  EXPECT_EQ(screen.err, "");
}

TEST(Terminal, MessagesAndBarsShowControlCharacters) {
  Screen screen;
  Terminal terminal(LogLevel::kInfo, true, screen.port());
  terminal.log(LogLevel::kInfo, "label \x1b[31m\nof two lines");
  EXPECT_EQ(screen.err, "[INFO] label \\x1b[31m\nof two lines\n");
  terminal.begin_progress("model\x07\n", 10);
  EXPECT_NE(screen.err.find("\rmodel\\x07\\n:   0%|"), std::string::npos) << screen.err;
}

TEST(Terminal, AnInnerBarIsWipedAndTheOuterComesBack) {
  Screen screen;
  Terminal terminal(LogLevel::kInfo, true, screen.port());
  terminal.begin_progress("", 10, 4);
  terminal.begin_progress("Evaluating", 3);
  screen.now = 1;
  terminal.update_progress(3);
  screen.err.clear();
  terminal.end_progress();
  const size_t inner = screen.err.find("Evaluating: 100%"), outer = screen.err.find(" 40%|");
  EXPECT_LT(inner, outer);
  EXPECT_NE(outer, std::string::npos);
  EXPECT_EQ(screen.err.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace lathe
