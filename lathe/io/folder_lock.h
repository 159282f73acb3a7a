#pragma once
#include <sys/types.h>

#include <string>

namespace lathe {

/// Keeps two runs, of one process or of two, from writing into one folder.  The lock is on the folder itself
/// (flock(2)): it leaves no file, and ends with its process, however that ends.
class FolderLock {
 public:
  FolderLock() = default;
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// False where another FolderLock holds `folder`.  True where this one does from now on, until it goes;
  /// also where nothing can be held: no such folder, or a file system without flock.
  bool take(const std::string& folder);

 private:
  int fd_ = -1;
  pid_t owner_ = 0;  ///< the process that took it
};

}  // namespace lathe
