#include "lathe/io/folder_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>

#include "lathe/core/test_folder.h"
#include "lathe/io/file_system.h"

namespace lathe {
namespace {

TEST(FolderLock, KeepsOthersOutUntilItGoes) {
  const TestFolder folder;
  auto first = std::make_unique<FolderLock>();
  FolderLock second;
  EXPECT_TRUE(first->take(folder.path()));
  EXPECT_TRUE(first->take(folder.path()));
  EXPECT_FALSE(second.take(folder.path()));
  first.reset();
  EXPECT_TRUE(second.take(folder.path()));
  EXPECT_TRUE(real_file_system().list(folder.path()).value().empty());
}

TEST(FolderLock, GoesWithAProcessThatIsKilled) {
  const TestFolder folder;
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    FolderLock lock;
    const char taken = lock.take(folder.path()) ? 'y' : 'n';
    if (::write(pipe[1], &taken, 1) == 1) ::pause();
    ::_exit(1);
  }
  char taken = 0;
  ASSERT_EQ(::read(pipe[0], &taken, 1), 1);
  EXPECT_EQ(taken, 'y');
  FolderLock lock;
  EXPECT_FALSE(lock.take(folder.path()));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(lock.take(folder.path()));
  ::close(pipe[0]), ::close(pipe[1]);
}

TEST(FolderLock, GoesThoughAForkedChildHasItOpen) {
  const TestFolder folder;
  auto first = std::make_unique<FolderLock>();
  ASSERT_TRUE(first->take(folder.path()));
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(1);
  }
  first.reset();
  FolderLock second;
  EXPECT_TRUE(second.take(folder.path()));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(FolderLock, StaysThoughAForkedChildUnwinds) {
  const TestFolder folder;
  auto first = std::make_unique<FolderLock>();
  ASSERT_TRUE(first->take(folder.path()));
  const pid_t child = ::fork();
  if (child == 0) {
    first.reset();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  FolderLock second;
  EXPECT_FALSE(second.take(folder.path()));
}

TEST(FolderLock, HoldsNothingWhereThereIsNoFolder) {
  const TestFolder folder;
  FolderLock first, second;
  EXPECT_TRUE(first.take(folder.path() + "/missing"));
  EXPECT_TRUE(second.take(folder.path() + "/missing"));
}

}  // namespace
}  // namespace lathe
