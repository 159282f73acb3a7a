#include "lathe/io/directory_transaction.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "lathe/core/test_folder.h"
#include "lathe/io/faulty_file_system_testing.h"
#include "lathe/io/leftovers.h"

namespace lathe {
namespace {

using Content = std::map<std::string, std::string>;

const Content kOld = {{"model", "old weights"}, {"state", "old state"}};
const Content kNew = {{"model", "new weights"}, {"tokenizer/vocab", "new vocabulary"}};

/// All files below a folder, by relative path.
Content content_of(const std::string& folder, const std::string& prefix = "") {
  FileSystem& fs = real_file_system();
  Content content;
  for (const std::string& name : fs.list(folder).value()) {
    const std::string path = folder + "/" + name;
    if (fs.is_directory(path)) {
      content.merge(content_of(path, prefix + name + "/"));
    } else {
      content[prefix + name] = fs.read(path).value();
    }
  }
  return content;
}

Status save(FileSystem& fs, const std::string& target, const Content& content) {
  DirectoryTransaction transaction(fs, target);
  for (const auto& [name, text] : content) {
    Status status = transaction.write(name, text);
    if (!status.ok()) return status;
  }
  return transaction.commit();
}

/// Without faults, and without waiting for the disk.
Status save_old(const std::string& target) {
  FaultyFileSystem fs(real_file_system(), {});
  return save(fs, target, kOld);
}

/// What comes to the disk, in this order.
class Recorder : public FaultyFileSystem {
 public:
  explicit Recorder(bool can_exchange = true)
      : FaultyFileSystem(real_file_system(), {.can_exchange = can_exchange}) {}
  Status rename(const std::string& from, const std::string& to) override {
    log.push_back("rename");
    return FaultyFileSystem::rename(from, to);
  }
  Status exchange(const std::string& a, const std::string& b) override {
    log.push_back("exchange");
    return FaultyFileSystem::exchange(a, b);
  }
  Status sync(const std::string& path) override {
    log.push_back("sync " + file_name(path));
    return FaultyFileSystem::sync(path);
  }
  Status remove_all(const std::string& path) override {
    log.push_back("remove");
    return FaultyFileSystem::remove_all(path);
  }
  std::vector<std::string> log;
};

void expect_only(const std::string& folder, const std::string& name) {
  EXPECT_EQ(real_file_system().list(folder).value(), std::vector<std::string>{name});
}

TEST(DirectoryTransaction, CommitGivesTheNameAndLeavesNoTemporary) {
  const TestFolder folder;
  ASSERT_TRUE(save(real_file_system(), folder / "out/checkpoint-5/", kNew).ok());
  EXPECT_EQ(content_of(folder / "out/checkpoint-5"), kNew);
  expect_only(folder / "out", "checkpoint-5");
}

TEST(DirectoryTransaction, ReplacesAFolderAndNothingOfTheOldOneStays) {
  for (const bool can_exchange : {true, false}) {
    const TestFolder folder;
    ASSERT_TRUE(save_old(folder / "c").ok());
    FaultyFileSystem fs(real_file_system(), {.can_exchange = can_exchange});
    ASSERT_TRUE(save(fs, folder / "c", kNew).ok());
    EXPECT_EQ(content_of(folder / "c"), kNew);
    expect_only(folder.path(), "c");
  }
}

TEST(DirectoryTransaction, TheDiskKnowsOfAllBelowBeforeTheNameAndOfTheNameBeforeItIsSaid) {
  const TestFolder folder;
  Recorder fs;
  DirectoryTransaction transaction(fs, folder / "out/c");
  ASSERT_TRUE(transaction.write("tokenizer/vocab", "x").ok());
  const std::string temporary = file_name(transaction.folder());
  ASSERT_TRUE(transaction.commit().ok());
  const std::string above = file_name(folder.path());
  EXPECT_EQ(fs.log, (std::vector<std::string>{"sync " + above, "sync out", "sync " + temporary, "sync vocab",
                                              "sync tokenizer", "sync " + temporary, "rename", "sync out"}));
}

TEST(DirectoryTransaction, TheOldFolderGoesWhenTheDiskKnowsOfTheNewOne) {
  for (const bool can_exchange : {true, false}) {
    const TestFolder folder;
    ASSERT_TRUE(save_old(folder / "out/c").ok());
    Recorder fs(can_exchange);
    ASSERT_TRUE(save(fs, folder / "out/c", kNew).ok());
    ASSERT_GE(fs.log.size(), 3u);
    EXPECT_EQ(std::vector(fs.log.end() - 3, fs.log.end()),
              (std::vector<std::string>{can_exchange ? "exchange" : "rename", "sync out", "remove"}));
  }
}

TEST(DirectoryTransaction, WithoutCommitNothingIsLeft) {
  const TestFolder folder;
  {
    DirectoryTransaction transaction(real_file_system(), folder / "c");
    ASSERT_TRUE(transaction.write("model", "half").ok());
    EXPECT_TRUE(real_file_system().exists(transaction.folder() + "/model"));
    EXPECT_TRUE(file_name(transaction.folder()).starts_with(".tmp-c-"));
  }
  EXPECT_TRUE(real_file_system().list(folder.path()).value().empty());
}

TEST(DirectoryTransaction, AFailedWriteMakesTheCommitFail) {
  const TestFolder folder;
  DirectoryTransaction transaction(real_file_system(), folder / "c");
  EXPECT_FALSE(transaction.write("model", [](const Sink&) { return Status(ErrorCode::kIo, "no"); }).ok());
  EXPECT_EQ(transaction.write("other", "x").message(), "no");
  EXPECT_EQ(transaction.commit().message(), "no");
  EXPECT_FALSE(real_file_system().exists(folder / "c"));
}

/// The name of what was put by.
std::string replaced_in(const std::string& folder) {
  for (const std::string& name : real_file_system().list(folder).value())
    if (name.starts_with("c.replaced-")) return name;
  return "none";
}

TEST(DirectoryTransaction, AnyOneFailureLeavesOldOrNewWholeAndAnErrorBeforeTheSwapMeansOld) {
  for (const bool can_exchange : {true, false}) {
    for (int64_t at = 0;; ++at) {
      const TestFolder folder;
      ASSERT_TRUE(save_old(folder / "c").ok());
      FaultyFileSystem fs(real_file_system(), {.fail_at = at, .can_exchange = can_exchange});
      const LeftoversNote note(real_file_system(), folder.path());
      const Status status = save(fs, folder / "c", kNew);
      const Content found = content_of(folder / "c");
      EXPECT_TRUE(found == kOld || found == kNew) << at;
      if (status.ok()) {
        EXPECT_EQ(found, kNew) << at;
      }
      ASSERT_TRUE(clear_leftovers(real_file_system(), folder.path()).status.ok());
      expect_only(folder.path(), "c");
      EXPECT_EQ(content_of(folder / "c"), found);
      if (fs.operations() <= at) {
        EXPECT_TRUE(status.ok());
        break;
      }
    }
  }
}

TEST(DirectoryTransaction, ACrashAtAnyOperationLeavesOldOrNewWhole) {
  for (const bool can_exchange : {true, false}) {
    for (const bool lose_unsynced : {false, true}) {
      std::set<Content> seen;
      for (int64_t at = 0;; ++at) {
        const TestFolder folder;
        ASSERT_TRUE(save_old(folder / "c").ok());
        FaultyFileSystem fs(real_file_system(),
                            {.crash_at = at, .lose_unsynced = lose_unsynced, .can_exchange = can_exchange});
        const LeftoversNote note(real_file_system(), folder.path());
        (void)save(fs, folder / "c", kNew);
        // Under a name that the user can find, before anything is cleared:
        const bool named = real_file_system().exists(folder / "c");
        EXPECT_TRUE(named || !can_exchange) << at;
        const Content before = content_of(folder / (named ? "c" : replaced_in(folder.path())));
        EXPECT_TRUE(before == kOld || before == kNew) << at;
        ASSERT_TRUE(clear_leftovers(real_file_system(), folder.path()).status.ok());
        EXPECT_EQ(content_of(folder / "c"), before) << at;
        expect_only(folder.path(), "c");
        seen.insert(before);
        if (!fs.crashed()) break;
      }
      EXPECT_EQ(seen.size(), 2u);
    }
  }
}

TEST(DirectoryTransaction, AFullDiskKeepsTheOldFolder) {
  for (int64_t room = 0; room < 25; ++room) {
    const TestFolder folder;
    ASSERT_TRUE(save_old(folder / "c").ok());
    FaultyFileSystem fs(real_file_system(), {.disk_bytes = room});
    const Status status = save(fs, folder / "c", kNew);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.message().find("No space left"), std::string::npos);
    EXPECT_EQ(content_of(folder / "c"), kOld);
    expect_only(folder.path(), "c");
  }
}

/// The name that temporary_name gives next: the counter goes up by one at each call.
std::string next_name(const std::string& path) {
  const std::string now = temporary_name(path);
  const size_t dash = now.rfind('-');
  return now.substr(0, dash + 1) + std::to_string(std::stoull(now.substr(dash + 1)) + 1);
}

TEST(DirectoryTransaction, FilesLeftUnderItsOwnNameDoNotGetInAndStay) {
  const TestFolder folder;
  const std::string next = next_name(folder / "c");
  ASSERT_TRUE(real_file_system().write(next + "/stranger", [](const Sink&) { return Status(); }).ok());
  DirectoryTransaction transaction(real_file_system(), folder / "c");
  ASSERT_NE(transaction.folder(), next);
  ASSERT_TRUE(transaction.write("model", "x").ok());
  ASSERT_TRUE(transaction.commit().ok());
  EXPECT_EQ(content_of(folder / "c"), (Content{{"model", "x"}}));
  EXPECT_TRUE(real_file_system().exists(next + "/stranger"));
}

TEST(DirectoryTransaction, WhatBearsTheNamesOfFilesToComeStays) {
  const TestFolder folder;
  std::filesystem::create_symlink(folder / "photo", next_name(folder / "f"));
  ASSERT_TRUE(real_file_system().write_atomic(folder / "f", "new").ok());
  EXPECT_EQ(real_file_system().read(folder / "f").value(), "new");
  EXPECT_FALSE(real_file_system().exists(folder / "photo"));
}

TEST(DirectoryTransaction, WhereNamesCannotBeSwappedAFolderReplacedByTheUserStays) {
  const TestFolder folder;
  ASSERT_TRUE(save_old(folder / "c").ok());
  ASSERT_TRUE(save_old(folder / "c.replaced").ok());
  FaultyFileSystem fs(real_file_system(), {.can_exchange = false});
  ASSERT_TRUE(save(fs, folder / "c", kNew).ok());
  EXPECT_EQ(content_of(folder / "c"), kNew);
  EXPECT_EQ(content_of(folder / "c.replaced"), kOld);
}

TEST(RemoveFolder, RemovesItUnderATemporaryName) {
  for (int64_t at = 0;; ++at) {
    const TestFolder folder;
    ASSERT_TRUE(save_old(folder / "c").ok());
    FaultyFileSystem fs(real_file_system(), {.fail_at = at});
    const LeftoversNote note(real_file_system(), folder.path());
    const Status status = remove_folder(fs, folder / "c/");
    EXPECT_EQ(real_file_system().exists(folder / "c"), at == 0);
    ASSERT_TRUE(clear_leftovers(real_file_system(), folder.path()).status.ok());
    EXPECT_EQ(real_file_system().list(folder.path()).value().size(), at == 0 ? 1u : 0u);
    EXPECT_EQ(status.ok(), fs.operations() <= at);
    if (status.ok()) break;
  }
  EXPECT_TRUE(remove_folder(real_file_system(), "not there").ok());
}

TEST(RemoveFolder, ItsContentGoesWhenTheDiskKnowsThatItHasNoName) {
  const TestFolder folder;
  ASSERT_TRUE(save_old(folder / "out/c").ok());
  Recorder fs;
  ASSERT_TRUE(remove_folder(fs, folder / "out/c").ok());
  EXPECT_EQ(fs.log, (std::vector<std::string>{"rename", "sync out", "remove"}));
}

/// As a checkpoint is, which counts as one by its "state".
const Content kCheckpoint = {{"a model", "weights"}, {"state", "moments"}, {"tokenizer/vocab", "words"}};

TEST(RemoveFolder, WhereTheDiskCannotRenameItHalfOfItDoesNotCount) {
  for (int64_t at = 0;; ++at) {
    const TestFolder folder;
    FaultyFileSystem unsynced(real_file_system(), {});
    ASSERT_TRUE(save(unsynced, folder / "c", kCheckpoint).ok());
    FaultyFileSystem fs(real_file_system(), {.fail_at = at, .renames_folders = false});
    const Status status = remove_folder(fs, folder / "c", {"state"});
    const bool there = real_file_system().exists(folder / "c");
    EXPECT_EQ(there, !status.ok()) << at;
    EXPECT_EQ(there && content_of(folder / "c") == kCheckpoint,
              there && real_file_system().exists(folder / "c/state"));
    if (status.ok()) {
      EXPECT_EQ(fs.operations(), at);
      EXPECT_GT(at, 2);
      break;
    }
  }
}

TEST(RenameFolder, OneByOneWhereTheDiskCannotRenameFolders) {
  for (const bool can : {true, false}) {
    for (int64_t at = 0;; ++at) {
      const TestFolder folder;
      FaultyFileSystem unsynced(real_file_system(), {});
      ASSERT_TRUE(save(unsynced, folder / "c", kCheckpoint).ok());
      FaultyFileSystem fs(real_file_system(), {.fail_at = at, .renames_folders = can});
      const Status status = rename_folder(fs, folder / "c", folder / "old-c", {"state"});
      Content found;
      for (const std::string& name : real_file_system().list(folder.path()).value())
        for (const auto& [file, text] : content_of(folder / name))
          EXPECT_TRUE(found.emplace(file, text).second) << file;
      EXPECT_EQ(found, kCheckpoint) << at;
      if (real_file_system().exists(folder / "c/state")) {
        EXPECT_EQ(content_of(folder / "c"), kCheckpoint) << at;
      }
      if (status.ok()) {
        expect_only(folder.path(), "old-c");
        EXPECT_GE(at, can ? 1 : 6);
        break;
      }
    }
  }
}

}  // namespace
}  // namespace lathe
