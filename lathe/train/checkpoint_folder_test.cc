#include "lathe/train/checkpoint_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "lathe/core/test_folder.h"
#include "lathe/io/faulty_file_system_testing.h"

namespace lathe {
namespace {

using Names = std::vector<std::string>;

class CheckpointFolderTest : public ::testing::Test {
 protected:
  CheckpointFolderTest() { args_.output_dir = folder_ / "out"; }

  CheckpointFolder made(FileSystem& fs = real_file_system()) {
    return {fs, args_, [this](const std::string& text) { said_ += text + "\n"; }};
  }
  /// Checkpoints 1 to 4 and nothing else.
  void fill() {
    std::filesystem::remove_all(*args_.output_dir);
    FaultyFileSystem fs(real_file_system(), {});  // without waiting for the disk
    for (int64_t step = 1; step <= 4; ++step)
      fs.write_atomic(join_path(made().at_step(step), "trainer_state.json"), "{}").check();
  }
  Names there() { return real_file_system().list(*args_.output_dir).value(); }

  const TestFolder folder_;
  TrainingArguments args_;
  std::string said_;
};

TEST_F(CheckpointFolderTest, ARunGoesOnFromTheLastThatIsNotAModelAlone) {
  fill();
  const std::string last = made().at_step(10);  // after 4, by number
  std::filesystem::create_directories(last);
  EXPECT_EQ(made().to_go_on_from(), "");
  const auto make_whole = [](const std::string& checkpoint) {
    real_file_system().write_atomic(join_path(checkpoint, "optimizer.pt"), "").check();
  };
  make_whole(made().at_step(2));
  EXPECT_EQ(made().to_go_on_from(), made().at_step(2));
  EXPECT_EQ(said_, last + ": found no optimizer's state, which --save_only_model leaves out: goes on from " +
                       made().at_step(2) + "\n");
  said_.clear();
  make_whole(last);
  EXPECT_EQ(made().wanted_to_go_on_from(), last);
  EXPECT_EQ(said_, "");
}

TEST_F(CheckpointFolderTest, WhereOnlyModelsAreItSaysWhatCanBeDoneWithThem) {
  const auto error = [&] {
    try {
      made().wanted_to_go_on_from();
    } catch (const Error& found) {
      EXPECT_EQ(found.code(), ErrorCode::kNotFound);
      return std::string(found.what());
    }
    return std::string();
  };
  const std::string none =
      "--resume_from_checkpoint: " + folder_ / "out" + " holds no checkpoint-N that a run can go on from";
  EXPECT_EQ(error(), none);
  fill();
  EXPECT_EQ(error(),
            none +
                "; checkpoint-4 is of --save_only_model, without the optimizer's state: a new run begins "
                "with its weights by --model_name_or_path " +
                made().at_step(4));
  EXPECT_EQ(said_, "");
}

TEST_F(CheckpointFolderTest, RotatesAllButTheNewestAndTheBest) {
  struct Case {
    std::optional<int64_t> limit;
    bool load_best;
    int64_t best;  // 0: none
    Names left;
  };
  const Names all{"checkpoint-1", "checkpoint-2", "checkpoint-3", "checkpoint-4"};
  for (const Case& c : {Case{{}, false, 0, all}, Case{0, false, 1, all}, Case{5, false, 1, all},
                        Case{2, false, 0, {"checkpoint-3", "checkpoint-4"}},
                        Case{3, false, 1, {"checkpoint-1", "checkpoint-3", "checkpoint-4"}},
                        Case{1, false, 0, {"checkpoint-4"}}, Case{1, true, 4, {"checkpoint-4"}},
                        Case{1, true, 3, {"checkpoint-3", "checkpoint-4"}}}) {
    fill();
    args_.save_total_limit = c.limit;
    args_.load_best_model_at_end = c.load_best;
    made().rotate(c.best == 0 ? std::nullopt : std::optional(made().at_step(c.best)));
    EXPECT_EQ(there(), c.left) << c.limit.value_or(-1) << " " << c.best;
  }
  fill();
  made().rotate(folder_ / "elsewhere/checkpoint-3");  // the last that is to be loaded is in another folder
  EXPECT_EQ(there(), (Names{"checkpoint-3", "checkpoint-4"}));
}

TEST_F(CheckpointFolderTest, KeepsTheBestAloneWithALimitOf1AndWhereItIsAmongThem) {
  fill();
  const Names all = there();
  args_.save_total_limit = 1;
  made().keep_best(std::nullopt);
  made().keep_best(folder_ / "elsewhere/checkpoint-2");
  args_.save_total_limit = 2;
  made().keep_best(made().at_step(2));
  EXPECT_EQ(there(), all);
  args_.save_total_limit = 1;
  made().keep_best(made().at_step(2));
  EXPECT_EQ(there(), Names{"checkpoint-2"});
}

TEST_F(CheckpointFolderTest, SetsAsideWhatComesLaterThanTheStart) {
  fill();
  made().set_aside_other_runs(2, made().at_step(3) + "/");
  EXPECT_EQ(there(), (Names{"checkpoint-1", "checkpoint-2", "checkpoint-3", "old-checkpoint-4"}));
  EXPECT_EQ(said_, *args_.output_dir +
                       ": checkpoint-4: not of this run, which begins after step 2: renamed to "
                       "old-checkpoint-4, which may be deleted\n");
  said_.clear();
  made().set_aside_other_runs(3, "");
  EXPECT_EQ(said_, "");
}

TEST_F(CheckpointFolderTest, WhatWasSetAsideBeforeStays) {
  fill();
  const std::string photo = folder_ / "out/old-checkpoint-4/photo";
  real_file_system().write_atomic(photo, "mine").check();
  std::filesystem::create_directory_symlink("nowhere", folder_ / "out/old-checkpoint-4-2");
  made().set_aside_other_runs(3, "");
  EXPECT_EQ(there(), (Names{"checkpoint-1", "checkpoint-2", "checkpoint-3", "old-checkpoint-4",
                            "old-checkpoint-4-2", "old-checkpoint-4-3"}));
  EXPECT_EQ(real_file_system().read(photo).value(), "mine");
  EXPECT_NE(said_.find("renamed to old-checkpoint-4-3, which"), std::string::npos) << said_;
}

TEST_F(CheckpointFolderTest, KnowsWhatWasSetAsideByItsName) {
  for (const char* name : {"old-checkpoint-4", "old-checkpoint-10-2", "old-checkpoint-0-123"})
    EXPECT_TRUE(is_set_aside(name)) << name;
  for (const char* name :
       {"checkpoint-4", "old-photos", "old-checkpoint-", "old-checkpoint-4-", "old-checkpoint-4-x",
        "old-checkpoint-4-2-3", "old-", "old-4-2", "old-checkpoint-x-2"})
    EXPECT_FALSE(is_set_aside(name)) << name;
}

TEST_F(CheckpointFolderTest, WhatIsACheckpointByItsNameAloneIsNotDeleted) {
  fill();
  real_file_system().write_atomic(folder_ / "out/checkpoint-0/photo", "mine").check();
  std::filesystem::rename(made().at_step(1), folder_ / "elsewhere");
  std::filesystem::create_directory_symlink("../elsewhere", made().at_step(1));
  args_.save_total_limit = 1;
  made().rotate({});
  EXPECT_EQ(there(), (Names{"checkpoint-0", "checkpoint-1", "checkpoint-4"}));
  made().keep_best(made().at_step(4));
  EXPECT_EQ(there(), (Names{"checkpoint-0", "checkpoint-1", "checkpoint-4"}));
}

TEST_F(CheckpointFolderTest, SaysWhatItClears) {
  fill();
  EXPECT_EQ(made().clear_leftovers(), Names{});
  EXPECT_EQ(said_, "");
  const std::string ids = "-999999999-0", out = *args_.output_dir;
  for (const std::string name : {".tmp-checkpoint-9", "checkpoint-5.replaced", ".tmp-odd"})
    std::filesystem::create_directories(join_path(out, name + ids));
  EXPECT_EQ(made().clear_leftovers(),
            (Names{".tmp-checkpoint-9" + ids, ".tmp-odd" + ids, "checkpoint-5.replaced" + ids}));
  EXPECT_EQ(said_, "");
  real_file_system().write_atomic(folder_ / "out/.tmp-lathe-999999999", "").check();
  EXPECT_EQ(made().clear_leftovers(), Names{});
  EXPECT_EQ(
      said_,
      out + ": a run was killed while it replaced checkpoint-5: what was there before has its name again\n" +
          out + ": removed what a killed run left: .tmp-checkpoint-9" + ids + ", .tmp-odd" + ids +
          ", .tmp-lathe-999999999\n");
}

TEST_F(CheckpointFolderTest, WarnsWhereTheDiskHasNoRoomForWhatMayBeThereAtOnce) {
  constexpr int64_t kMega = 1 << 20;
  const auto told = [&](int64_t room, int64_t to_come) {
    said_.clear();
    FaultyFileSystem fs(real_file_system(), {.disk_bytes = room});
    made(fs).warn_of_space(to_come, 2 * kMega, kMega);
    return said_;
  };
  EXPECT_EQ(told(21 * kMega, 10), "");
  EXPECT_NE(told(21 * kMega - 1, 10).find("10 checkpoints and the model take 21.0 MB"), std::string::npos);
  EXPECT_NE(told(0, 0).find("the model takes 1.0 MB at most"), std::string::npos) << said_;
  args_.save_total_limit = 1;  // a new one is there before the old one goes
  EXPECT_EQ(told(5 * kMega, 10), "");
  EXPECT_NE(told(5 * kMega - 1, 10).find("2 checkpoints and the model take 5.0 MB"), std::string::npos);
  args_.load_best_model_at_end = true;
  EXPECT_NE(told(0, 10).find("3 checkpoints and the model"), std::string::npos) << said_;
  fill();
  EXPECT_NE(told(0, 10).find("1 checkpoint and the model"), std::string::npos) << said_;
}

TEST_F(CheckpointFolderTest, FindsTheBestBesideTheOneGoneOnFromThenWhereItWasThenInItself) {
  const std::string recorded = folder_ / "before/checkpoint-2", resumed = folder_ / "moved/checkpoint-3";
  EXPECT_EQ(made().find_best(recorded, resumed), std::nullopt);
  EXPECT_EQ(said_, resumed + ": the best checkpoint that it names, " + recorded +
                       ", is not there any more: goes on without one\n");
  const std::string beside = folder_ / "moved/checkpoint-2";
  for (const std::string& place : {made().at_step(2), recorded, beside}) {
    std::filesystem::create_directories(place);
    EXPECT_EQ(made().find_best(recorded, resumed), place);
  }
  args_.output_dir = folder_ / "./moved";  // as `rotate` sees it
  EXPECT_EQ(made().find_best(recorded, resumed), made().at_step(2));
  args_.output_dir.reset();
  EXPECT_EQ(made().find_best(recorded, resumed), beside);
}

}  // namespace
}  // namespace lathe
