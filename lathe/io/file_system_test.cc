#include "lathe/io/file_system.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <span>

#include "lathe/core/test_folder.h"
#include "lathe/io/faulty_file_system_testing.h"

namespace lathe {
namespace {

TEST(FileSystem, PathPartsFollowTheSlashes) {
  EXPECT_EQ(parent_folder("a/b/c"), "a/b");
  EXPECT_EQ(parent_folder("a/b//"), "a");
  EXPECT_EQ(parent_folder("a//b"), "a");
  EXPECT_EQ(parent_folder("c"), ".");
  EXPECT_EQ(parent_folder("/c"), "/");
  EXPECT_EQ(parent_folder("/"), "/");
  EXPECT_EQ(file_name("a/b/c/"), "c");
  EXPECT_EQ(file_name("c"), "c");
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("/", "b"), "/b");
  EXPECT_EQ(join_path(".", "b"), "b");
}

TEST(FileSystem, WriteAtomicThenReadAndMapGiveTheSameBytes) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  const std::string path = folder / "a/b/file.bin";
  const std::string content("one\0two\n", 8);
  ASSERT_TRUE(fs.write_atomic(path, content).ok());
  EXPECT_EQ(fs.read(path).value(), content);
  EXPECT_EQ(fs.map(path).value().text(), content);
  EXPECT_EQ(fs.list(folder / "a/b").value(), std::vector<std::string>{"file.bin"});
  ASSERT_TRUE(fs.write_atomic(path, "").ok());
  EXPECT_EQ(fs.map(path).value().bytes().size(), 0u);
}

// As root a device would be replaced by a file.
TEST(FileSystem, WhatIsNoFileIsWrittenInPlace) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  const std::string pipe = folder / "pipe", link = folder / "full";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDWR | O_NONBLOCK);
  EXPECT_EQ(fs.write_atomic(pipe, "content").message(), "");
  char arrived[16];
  EXPECT_EQ(read(reader, arrived, sizeof arrived), 7);
  close(reader);
  std::filesystem::create_symlink("/dev/full", link);
  if (fs.exists(link)) {
    EXPECT_EQ(fs.write_atomic(link, "content").code(), ErrorCode::kIo);
  }
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(fs.list(folder.path()).value(), (std::vector<std::string>{"full", "pipe"}));
}

// As /dev/stdout is one.
TEST(FileSystem, ALinkToAStreamOfTheProcessStays) {
  if (!std::filesystem::exists("/proc/self/fd")) GTEST_SKIP() << "no /proc";
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  const std::string link = folder / "stream", file = folder / "file";
  const int stream = open(file.c_str(), O_RDWR | O_CREAT, 0600);
  std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(stream), link);
  EXPECT_EQ(fs.write_atomic(link, "content").message(), "");
  close(stream);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(fs.read(file).value(), "content");
}

// As in --html /dev/fd/1 with the output going to a file.
TEST(FileSystem, AStreamOfTheProcessIsWrittenInPlace) {
  if (!std::filesystem::exists("/dev/fd")) GTEST_SKIP() << "no /dev/fd";
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  const std::string file = folder / "file";
  const int stream = open(file.c_str(), O_RDWR | O_CREAT, 0600);
  EXPECT_EQ(fs.write_atomic("/dev/fd/" + std::to_string(stream), "content").message(), "");
  close(stream);
  EXPECT_EQ(fs.read(file).value(), "content");
  EXPECT_EQ(fs.list(folder.path()).value(), std::vector<std::string>{"file"});
}

// As in --html /dev/fd/3 with 3< file, also as root, and in --html /dev/stdout after what was printed.
TEST(FileSystem, AStreamOfTheProcessIsWrittenAsItWasOpened) {
  if (!std::filesystem::exists("/dev/fd")) GTEST_SKIP() << "no /dev/fd";
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  const std::string file = folder / "file", link = folder / "link";
  const int written = open(file.c_str(), O_WRONLY | O_CREAT, 0600), read_only = open(file.c_str(), O_RDONLY);
  ASSERT_EQ(write(written, "before, ", 8), 8);
  std::filesystem::create_symlink("/dev/fd/" + std::to_string(written), link);
  EXPECT_EQ(fs.write_atomic("/dev/fd/" + std::to_string(written), "content").message(), "");
  EXPECT_EQ(fs.write_atomic(link, ", more").message(), "");
  EXPECT_EQ(fs.write_atomic("/dev/fd/" + std::to_string(read_only), "lost").code(), ErrorCode::kIo);
  close(written);
  close(read_only);
  EXPECT_FALSE(fs.write_atomic("/dev/fd/" + std::to_string(written), "nowhere").ok());
  EXPECT_EQ(fs.read(file).value(), "before, content, more");
}

TEST(FileSystem, MappedBytesOutliveTheResultThatGaveThem) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  ASSERT_TRUE(fs.write_atomic(folder / "f", "content").ok());
  MappedFile copy;
  {
    const MappedFile first = fs.map(folder / "f").value();
    copy = first;
  }
  EXPECT_EQ(copy.text(), "content");
}

TEST(FileSystem, ReleasedBytesLeaveTheMemoryOfTheProcessAndCanBeReadAgain) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  std::string content(size_t{32} << 20, 'x');
  content.back() = 'y';
  ASSERT_TRUE(fs.write_atomic(folder / "f", content).ok());
  const MappedFile file = fs.map(folder / "f").value();
  const auto resident = [] {  // only pages of files
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.rfind("RssFile:", 0) == 0) return std::stol(line.substr(8));
    return -1L;
  };
  EXPECT_EQ(file.text(), content);
  const long read = resident();
  file.release(file.bytes().subspan(5));
  if (read >= 0) {
    EXPECT_LT(resident(), read - 31 * 1024);
  }
  EXPECT_EQ(file.text(), content);
  file.release({});
  std::string owned = "content";  // bytes that are no mapping stay what they are
  const MappedFile copy(std::as_bytes(std::span(owned)), nullptr);
  copy.release(copy.bytes());
  EXPECT_EQ(copy.text(), "content");
}

TEST(FileSystem, ThreadsThatRemoveTheSameFolderAllSucceed) {
  FileSystem& fs = real_file_system();
  for (int round = 0; round < 20; ++round) {
    const TestFolder folder;
    for (int file = 0; file < 50; ++file) std::ofstream(folder / std::to_string(file)) << file;
    const auto remove = [&] { return fs.remove_all(folder.path()).message(); };
    auto other = std::async(std::launch::async, remove);
    EXPECT_EQ(remove(), "");
    EXPECT_EQ(other.get(), "");
    EXPECT_FALSE(fs.exists(folder.path()));
  }
}

TEST(FileSystem, AFolderIsRemovedOnlyWhereItIsEmpty) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  ASSERT_TRUE(fs.write_atomic(folder / "a/x", "1").ok());
  EXPECT_EQ(fs.remove_empty_folder(folder / "a").code(), ErrorCode::kIo);
  EXPECT_EQ(fs.read(folder / "a/x").value(), "1");
  EXPECT_EQ(fs.remove_empty_folder(folder / "none").code(), ErrorCode::kNotFound);
  ASSERT_TRUE(fs.remove_all(folder / "a/x").ok());
  FaultyFileSystem faulty(fs, {.fail_at = 0});
  EXPECT_EQ(faulty.remove_empty_folder(folder / "a").code(), ErrorCode::kIo);
  EXPECT_TRUE(fs.is_directory(folder / "a"));
  EXPECT_TRUE(faulty.remove_empty_folder(folder / "a").ok());
  EXPECT_FALSE(fs.exists(folder / "a"));
}

TEST(FileSystem, MissingFilesAreNotFoundAndNamed) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  for (const Status& status : {fs.read(folder / "none").status(), fs.map(folder / "none").status(),
                               fs.list(folder / "none").status()}) {
    EXPECT_EQ(status.code(), ErrorCode::kNotFound);
    EXPECT_NE(status.message().find("none: cannot"), std::string::npos) << status.message();
  }
  EXPECT_EQ(fs.map(folder.path()).status().code(), ErrorCode::kIo);
  EXPECT_EQ(fs.read(folder.path()).status().code(), ErrorCode::kIo);
  EXPECT_TRUE(fs.remove_all(folder / "none").ok());
}

TEST(FileSystem, ExchangeSwapsTwoFolders) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  ASSERT_TRUE(fs.write_atomic(folder / "a/x", "1").ok());
  ASSERT_TRUE(fs.write_atomic(folder / "b/y", "2").ok());
  const Status status = fs.exchange(folder / "a", folder / "b");
  if (status.code() == ErrorCode::kUnsupported) GTEST_SKIP() << "needs a disk format that can swap names";
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(fs.read(folder / "b/x").value(), "1");
  EXPECT_EQ(fs.read(folder / "a/y").value(), "2");
}

TEST(FileSystem, AFolderInTheWayOrAFileAsParentIsAnErrorAndLeavesNothing) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  ASSERT_TRUE(fs.write_atomic(folder / "file", "x").ok());
  ASSERT_TRUE(fs.create_directories(folder / "dir/inner").ok());
  EXPECT_FALSE(fs.write_atomic(folder / "file/below", "y").ok());
  EXPECT_FALSE(fs.write_atomic(folder / "dir", "y").ok());
  EXPECT_EQ(fs.list(folder.path()).value(), (std::vector<std::string>{"dir", "file"}));
  EXPECT_FALSE(fs.is_writable(folder / "file/below"));
  EXPECT_FALSE(fs.create_directories(folder / "file").ok());
}

TEST(FileSystem, WritableAsksTheNearestFolderThatExists) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  EXPECT_TRUE(fs.is_writable(folder / "not/yet/there"));
  EXPECT_GT(fs.free_bytes(folder / "not/yet/there").value(), 0u);
}

TEST(FileSystem, WhatDoesNotSayHowLargeItIsIsNotFull) {
  if (!std::filesystem::exists("/proc/self")) GTEST_SKIP() << "needs a file system without blocks";
  const Status status = real_file_system().free_bytes("/proc").status();
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported) << status.message();
}

TEST(FileSystem, AFolderWithoutWritePermissionIsNotWritable) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  if (geteuid() == 0) GTEST_SKIP() << "needs a user whom permissions bind";
  ASSERT_EQ(chmod(folder.path().c_str(), 0500), 0);
  EXPECT_FALSE(fs.is_writable(folder / "not"));
  EXPECT_FALSE(fs.write_atomic(folder / "file", "x").ok());
  ASSERT_EQ(chmod(folder.path().c_str(), 0700), 0);
}

TEST(FileSystem, WhatPermissionsHideIsNotAbsent) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  ASSERT_TRUE(fs.write_atomic(folder / "closed/file", "x").ok());
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  for (const char* name : {"closed/file", "closed/none", "none/below", "closed/file/below", "closed"})
    EXPECT_TRUE(fs.can_look_for(folder / name).ok()) << name;
  ASSERT_EQ(chmod((folder / "closed").c_str(), 0), 0);
  const bool root = geteuid() == 0;  // whom permissions do not bind
  if (root && seteuid(65534) != 0) GTEST_SKIP() << "may not become another user";
  const bool reached = fs.exists(folder / "closed");
  if (root && !reached) {
    ASSERT_EQ(seteuid(0), 0);
  }
  if (!reached) GTEST_SKIP() << "only root may enter the folder of the tests";
  for (const char* name : {"closed/file", "closed/none"}) {
    const Status status = fs.can_look_for(folder / name);
    EXPECT_EQ(status.message(), folder / name +
                                    ": cannot open: Permission denied; check the permissions or "
                                    "choose another place");
  }
  EXPECT_TRUE(fs.can_look_for(folder / "closed").ok());
  EXPECT_TRUE(fs.can_look_for(folder / "none").ok());
  ASSERT_TRUE(!root || seteuid(0) == 0);
  ASSERT_EQ(chmod((folder / "closed").c_str(), 0700), 0);
}

/// The content of a folder must be the file `f` with `old` or `fresh` and, beyond that, temporaries only.
void expect_old_or_new(const std::string& folder, const std::string& old, const std::string& fresh,
                       bool may_leave_temporaries) {
  FileSystem& fs = real_file_system();
  const std::string content = fs.read(folder + "/f").value();
  EXPECT_TRUE(content == old || content == fresh) << content;
  for (const std::string& name : fs.list(folder).value())
    EXPECT_TRUE(name == "f" || (may_leave_temporaries && name.starts_with(".tmp-"))) << name;
}

Status write_in_chunks(FileSystem& fs, const std::string& path, const std::string& content) {
  return fs.write_atomic(path, [&content](const Sink& sink) {
    for (size_t i = 0; i < content.size(); i += 10) {
      Status status = sink(as_bytes(std::string_view(content).substr(i, 10)));
      if (!status.ok()) return status;
    }
    return Status();
  });
}

TEST(WriteAtomic, AnyOneFailureLeavesTheOldFileAndNoTemporary) {
  const std::string old(35, 'o'), fresh(47, 'n');
  for (int64_t at = 0;; ++at) {
    const TestFolder folder;
    ASSERT_TRUE(real_file_system().write_atomic(folder / "f", old).ok());
    FaultyFileSystem fs(real_file_system(), {.fail_at = at});
    const Status status = write_in_chunks(fs, folder / "f", fresh);
    expect_old_or_new(folder.path(), old, fresh, false);
    if (fs.operations() <= at) {
      EXPECT_TRUE(status.ok());
      EXPECT_EQ(at, 10);  // create, 5 appends, sync, close, rename, sync of the folder
      break;
    }
    EXPECT_EQ(status.code(), ErrorCode::kIo) << at;
  }
}

TEST(WriteAtomic, ACrashAtAnyOperationLeavesOldOrNewWhole) {
  const std::string old(35, 'o'), fresh(47, 'n');
  for (const bool lose_unsynced : {false, true}) {
    std::set<std::string> seen;
    for (int64_t at = 0;; ++at) {
      const TestFolder folder;
      ASSERT_TRUE(real_file_system().write_atomic(folder / "f", old).ok());
      FaultyFileSystem fs(real_file_system(), {.crash_at = at, .lose_unsynced = lose_unsynced});
      const bool ok = write_in_chunks(fs, folder / "f", fresh).ok();
      expect_old_or_new(folder.path(), old, fresh, true);
      seen.insert(real_file_system().read(folder / "f").value());
      if (ok) break;
    }
    EXPECT_EQ(seen.size(), 2u);
  }
}

TEST(WriteAtomic, AFullDiskAtAnyByteKeepsTheOldFile) {
  const std::string old(35, 'o'), fresh(47, 'n');
  for (int64_t room = 0; room <= 47; ++room) {
    const TestFolder folder;
    ASSERT_TRUE(real_file_system().write_atomic(folder / "f", old).ok());
    FaultyFileSystem fs(real_file_system(), {.disk_bytes = room});
    const Status status = write_in_chunks(fs, folder / "f", fresh);
    EXPECT_EQ(status.ok(), room == 47);
    EXPECT_EQ(real_file_system().read(folder / "f").value(), room == 47 ? fresh : old);
    expect_old_or_new(folder.path(), old, fresh, false);
    if (!status.ok()) {
      EXPECT_NE(status.message().find("No space left"), std::string::npos);
    }
  }
}

TEST(WriteAtomic, AWriterThatFailsOrThrowsLeavesNothing) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  const Status failed =
      fs.write_atomic(folder / "f", [](const Sink&) { return Status(ErrorCode::kShape, "no"); });
  EXPECT_EQ(failed.message(), "no");
  EXPECT_THROW((void)fs.write_atomic(folder / "f", [](const Sink&) -> Status { throw 1; }), int);
  EXPECT_TRUE(fs.list(folder.path()).value().empty());
}

TEST(FileSystem, AFileInNewFoldersIsThereAfterThePowerFailed) {
  int64_t operations = 0;
  {
    const TestFolder folder;
    FaultyFileSystem fs(real_file_system(), {});
    ASSERT_TRUE(fs.write_atomic(folder / "a/b/f", "content").ok());
    operations = fs.operations();
  }
  for (int64_t at = 0; at <= operations; ++at) {
    const TestFolder folder;
    FaultyFileSystem fs(real_file_system(), {.crash_at = at, .lose_unsynced = true});
    const bool said = fs.write_atomic(folder / "a/b/f", "content").ok();
    EXPECT_EQ(said, at == operations);
    (void)fs.remove_all(folder / "other");  // the power fails here at the latest
    EXPECT_EQ(real_file_system().exists(folder / "a/b/f"), said || at >= operations - 1) << at;
  }
}

TEST(FileSystem, FoldersAreMadeOneByOneAndEachIsBroughtToTheDisk) {
  const TestFolder folder;
  for (const std::string path : {"a/b/c", "d/../e/", "a//b/./f", "a/b"}) {
    EXPECT_EQ(real_file_system().create_directories(folder / path).message(), "");
    EXPECT_TRUE(real_file_system().is_directory(folder / path)) << path;
  }
  FaultyFileSystem fs(real_file_system(), {});
  ASSERT_TRUE(fs.create_directories(folder / "a/b").ok());
  EXPECT_EQ(fs.operations(), 0);  // all there
  ASSERT_TRUE(fs.create_directories(folder / "a/x/y").ok());
  EXPECT_EQ(fs.operations(), 4);
}

}  // namespace
}  // namespace lathe
