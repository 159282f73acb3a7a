#include "lathe/io/leftovers.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "lathe/core/test_folder.h"
#include "lathe/io/faulty_file_system_testing.h"

namespace lathe {
namespace {

using Names = std::vector<std::string>;

FileSystem& disk = real_file_system();

/// A process that was killed while its note lay in `folder`; the id of it.
long killed_in(const std::string& folder) {
  const pid_t pid = fork();
  if (pid == 0) {
    const LeftoversNote note(disk, folder);
    _exit(0);  // no destructor runs
  }
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  return pid;
}

void put(const std::string& path) { ASSERT_TRUE(disk.write_atomic(path, "mine").ok()) << path; }

Names left_in(const std::string& folder) { return disk.list(folder).value(); }

TEST(Leftovers, TheNoteLiesThereAsLongAsItLives) {
  const TestFolder folder;
  {
    const LeftoversNote note(disk, folder.path());
    EXPECT_EQ(left_in(folder.path()), Names{".tmp-lathe-" + std::to_string(getpid())});
  }
  EXPECT_EQ(left_in(folder.path()), Names{});
}

TEST(Leftovers, WhatAKilledProcessHasNotedIsClearedAndNamed) {
  const TestFolder folder;
  const std::string pid = std::to_string(killed_in(folder.path()));
  const std::string note = ".tmp-lathe-" + pid, model = ".tmp-model.safetensors-" + pid + "-3",
                    checkpoint = ".tmp-checkpoint-7-" + pid + "-12",
                    one = "checkpoint-1.replaced-" + pid + "-0", two = "checkpoint-2.replaced-" + pid + "-1";
  put(folder / model);
  put(folder / (checkpoint + "/deep/model"));
  put(folder / (one + "/model"));
  put(folder / (two + "/model"));
  put(folder / "checkpoint-2/model");
  const Leftovers found = clear_leftovers(disk, folder.path());
  EXPECT_EQ(found.status.message(), "");
  EXPECT_EQ(found.removed, (Names{checkpoint, model, two, note}));
  EXPECT_EQ(found.renamed, Names{"checkpoint-1"});
  EXPECT_EQ(found.unproven, Names{});
  EXPECT_EQ(left_in(folder.path()), (Names{"checkpoint-1", "checkpoint-2"}));
  EXPECT_TRUE(disk.exists(folder / "checkpoint-1/model"));
}

TEST(Leftovers, WhatNoNoteProvesStays) {
  const TestFolder folder;
  const std::string pid = std::to_string(killed_in(folder.path()));
  ASSERT_TRUE(disk.remove_all(folder / (".tmp-lathe-" + pid)).ok());
  const Names unproven = {".tmp-checkpoint-7-" + pid + "-0", ".tmp-model.safetensors-999999999-1",
                          "a.replaced-" + pid + "-5"};
  const Names others = {".tmp-",           ".tmp-odd",
                        ".tmp-1-2-x",      ".tmp-x-01-2",
                        ".tmp-x-1--2",     ".tmp--" + pid,
                        ".tmp-x-0-1",      ".tmp-lathe-999999998",
                        "b.replaced",      "checkpoint-5.replaced",
                        "photos.replaced", ".replaced-1-2",
                        "x-" + pid + "-0", ".tmp-x-99999999999999999999-1",
                        ".tmp-lathe-",     ".tmp-lathe-01"};
  for (const Names& names : {unproven, others})
    for (const std::string& name : names) put(folder / (name + "/photo"));
  put(folder / "sub/.tmp-x-999999999-0");
  const Names before = left_in(folder.path());
  const Leftovers found = clear_leftovers(disk, folder.path());
  EXPECT_TRUE(found.status.ok());
  EXPECT_EQ(found.unproven, unproven);
  EXPECT_EQ(found.removed, Names{});
  EXPECT_EQ(left_in(folder.path()), before);
  EXPECT_TRUE(disk.exists(folder / "photos.replaced/photo"));
}

TEST(Leftovers, ANoteProvesNothingOfOtherProcessesNorOfFoldersBelow) {
  const TestFolder folder;
  const std::string pid = std::to_string(killed_in(folder.path()));
  const std::string other = ".tmp-x-" + std::to_string(std::stol(pid) + 1000000000L) + "-0";
  put(folder / other);
  put(folder / ("sub/.tmp-x-" + pid + "-0"));
  EXPECT_EQ(clear_leftovers(disk, folder.path()).removed, Names{".tmp-lathe-" + pid});
  EXPECT_EQ(left_in(folder.path()), (Names{other, "sub"}));
  EXPECT_EQ(left_in(folder / "sub"), Names{".tmp-x-" + pid + "-0"});
}

TEST(Leftovers, AFileThatOnlyBearsTheNameOfANoteIsNone) {
  const TestFolder folder;
  put(folder / ".tmp-lathe-999999999");
  put(folder / "elsewhere");
  std::filesystem::create_symlink("elsewhere", folder / ".tmp-lathe-999999998");
  put(folder / ".tmp-x-999999999-0");
  const Names before = left_in(folder.path());
  EXPECT_EQ(clear_leftovers(disk, folder.path()).removed, Names{});
  EXPECT_EQ(left_in(folder.path()), before);
}

TEST(Leftovers, LinksAreRemovedNotFollowed) {
  const TestFolder folder;
  put(folder / "photos/one");
  ASSERT_TRUE(disk.create_directories(folder / "out").ok());
  const std::string pid = std::to_string(killed_in(folder / "out"));
  std::filesystem::create_symlink("../photos", folder / ("out/.tmp-x-" + pid + "-0"));
  EXPECT_EQ(clear_leftovers(disk, folder / "out").removed.size(), 2u);
  EXPECT_TRUE(disk.exists(folder / "photos/one"));
}

TEST(Leftovers, WhatALivingProcessWritesStays) {
  const TestFolder folder;
  int ready[2], go[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(go), 0);
  const pid_t living = fork();
  if (living == 0) {
    const LeftoversNote note(disk, folder.path());
    [[maybe_unused]] ssize_t ignored = write(ready[1], "x", 1);
    ignored = read(go[0], ready, 1);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  put(folder / (".tmp-x-" + std::to_string(living) + "-0"));
  EXPECT_EQ(clear_leftovers(disk, folder.path()).removed, Names{});
  EXPECT_EQ(left_in(folder.path()).size(), 2u);
  ASSERT_EQ(write(go[1], "x", 1), 1);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(living), &info, WEXITED | WNOWAIT), 0);
  if (disk.exists("/proc/self/stat")) {  // it is no zombie's any more
    EXPECT_EQ(clear_leftovers(disk, folder.path()).removed.size(), 2u);
  }
  EXPECT_EQ(waitpid(living, nullptr, 0), living);
  for (const int fd : {ready[0], ready[1], go[0], go[1]}) close(fd);
}

TEST(Leftovers, ANoteThatWasHalfWrittenIsRemoved) {
  for (int64_t at = 0;; ++at) {
    const TestFolder folder;
    FaultyFileSystem faulty(disk, {.crash_at = at});
    { const LeftoversNote note(faulty, folder.path()); }
    EXPECT_TRUE(clear_leftovers(disk, folder.path()).status.ok());
    EXPECT_EQ(left_in(folder.path()), Names{}) << at;
    if (!faulty.crashed()) break;
  }
}

TEST(Leftovers, AFaultWhileTheyAreClearedLosesNothingAndTheNextTimeEndsIt) {
  for (int64_t at = 0;; ++at) {
    const TestFolder folder;
    const std::string pid = std::to_string(killed_in(folder.path()));
    put(folder / ("c.replaced-" + pid + "-1/model"));
    put(folder / (".tmp-c-" + pid + "-0/model"));
    FaultyFileSystem faulty(disk, {.fail_at = at});
    const bool ok = clear_leftovers(faulty, folder.path()).status.ok();
    EXPECT_EQ(ok, faulty.operations() <= at);
    EXPECT_TRUE(clear_leftovers(disk, folder.path()).status.ok());
    EXPECT_EQ(left_in(folder.path()), Names{"c"}) << at;
    EXPECT_TRUE(disk.exists(folder / "c/model"));
    if (ok) break;
  }
}

TEST(Leftovers, WhereThereIsNoFolderThereAreNone) {
  EXPECT_TRUE(clear_leftovers(disk, "not there").status.ok());
}

}  // namespace
}  // namespace lathe
