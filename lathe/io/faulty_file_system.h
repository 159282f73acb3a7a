#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lathe/io/file_system.h"

namespace lathe {

/// For tests: passes everything on to another file system until the fault that `Plan` asks for.  Operations
/// that change the disk are counted from 0: create, append, sync, close, rename, exchange,
/// create_folder, remove_all, remove_empty_folder.  A sync is counted but does not reach the disk, which
/// would only cost time.  Not thread-safe.
class FaultyFileSystem : public FileSystem {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  struct Plan {
    int64_t fail_at = kNever;   ///< this operation returns kIo; an append has then written half its bytes
    int64_t crash_at = kNever;  ///< from this operation on nothing reaches the disk, as after kill -9
    int64_t disk_bytes =
        kNever;  ///< appends beyond so many bytes in all: what fits is written, then "no space"
    bool lose_unsynced = false;  ///< bytes, and new folders in one, that were not synced before the crash are
                                 ///< lost, as when the power fails
    bool can_exchange = true;    ///< false: exchange is kUnsupported
    bool renames_folders = true;  ///< false: kUnsupported but for new ones, as on overlayfs
    bool tells_room = true;       ///< false: free_bytes is kUnsupported
  };

  FaultyFileSystem(FileSystem& base, const Plan& plan) : base_(base), plan_(plan) {}

  int64_t operations() const { return operations_; }
  bool crashed() const { return operations_ > plan_.crash_at; }

  Result<std::string> read(const std::string& path, uint64_t limit_bytes = kSmallFileBytes) override;
  Result<MappedFile> map(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status exchange(const std::string& a, const std::string& b) override;
  Status sync(const std::string& path) override;
  Status create_folder(const std::string& path) override;
  Status remove_all(const std::string& path) override;
  Status remove_empty_folder(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  bool exists(const std::string& path) override;
  bool is_directory(const std::string& path) override;
  bool is_special(const std::string& path) override;
  bool is_writable(const std::string& path) override;
  Result<uint64_t> free_bytes(const std::string& path) override;

 private:
  class File;
  /// Counts one operation; not ok when it is to fail.
  Status step(const char* what, const std::string& path);

  FileSystem& base_;
  Plan plan_;
  int64_t operations_ = 0;
  int64_t written_bytes_ = 0;
  std::set<std::string> unsynced_folders_;  ///< made in a folder that was not synced since
};

}  // namespace lathe
