#include "lathe/report/loss_file.h"

#include <gtest/gtest.h>

#include "lathe/core/error_testing.h"
#include "lathe/core/test_folder.h"

namespace lathe {
namespace {

using Points = std::vector<std::pair<double, double>>;

struct Training {
  TestFolder folder;
  LossCurve losses;
  double now = 0;
  int said = 0;
  LossFile file{real_file_system(), folder.path(), [this]() -> const LossCurve& { return losses; },
                [this] { return now; }, [this](LogLevel, const std::string&) { ++said; }};
  Points read() { return read_losses(real_file_system(), folder.path()); }
};

TEST(LossFile, GrowsWhileARunGoesOnAndIsWholeAtItsEnd) {
  Training run;
  run.file.step();
  EXPECT_EQ(run.read(), Points{});
  for (int64_t step = 1; step <= 30; ++step) {
    run.now += 1;
    run.losses.add(step, 1 / static_cast<double>(2 * step));
    run.file.step();
  }
  EXPECT_EQ(run.read().size(), 21u);  // after 1, 11 and 21 seconds
  run.file.finish({});
  const Points points = run.read();
  ASSERT_EQ(points.size(), 30u);
  EXPECT_EQ(points[0], (std::pair{1.0, 0.5}));
  EXPECT_EQ(points[4], (std::pair{5.0, 0.1}));
}

TEST(LossFile, AnErrorIsSaidOnce) {
  Training run;
  real_file_system().create_directories(join_path(run.folder.path(), "losses.csv/in the way")).check();
  run.losses.add(1, 1);
  run.file.step();
  run.file.finish({});
  EXPECT_EQ(run.said, 1);
}

TEST(LossFile, WhatIsNoneIsRefusedByItsLine) {
  const TestFolder folder;
  for (const auto& [text, line] : std::vector<std::pair<std::string, int>>{{"", 1},
                                                                           {"step;loss\n1;2\n", 1},
                                                                           {"step,loss\n1,2\n1,2\n", 3},
                                                                           {"step,loss\n1,2\n2,x\n", 3},
                                                                           {"step,loss\n1,nan\n", 2},
                                                                           {"step,loss\n1,2", 2},
                                                                           {"step,loss\n1\n", 2}}) {
    real_file_system().write_atomic(join_path(folder.path(), kLossFile), text).check();
    EXPECT_NE(message_of(ErrorCode::kInvalidData, [&] { read_losses(real_file_system(), folder.path()); })
                  .find("losses.csv:" + std::to_string(line) + ": expected"),
              std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace lathe
