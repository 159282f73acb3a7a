#include "lathe/io/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace lathe {

FolderLock::~FolderLock() {
  if (fd_ < 0) return;
  // A child that was forked meanwhile has the lock open, too: it is its parent's.
  if (::getpid() == owner_) ::flock(fd_, LOCK_UN);
  ::close(fd_);
}

bool FolderLock::take(const std::string& folder) {
  if (fd_ >= 0) return true;
  fd_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0) return true;
  owner_ = ::getpid();
  int result = 0;
  do result = ::flock(fd_, LOCK_EX | LOCK_NB);
  while (result != 0 && errno == EINTR);
  if (result == 0 || errno != EWOULDBLOCK) return true;
  ::close(fd_);
  fd_ = -1;
  return false;
}

}  // namespace lathe
