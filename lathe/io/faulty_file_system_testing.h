#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lathe/io/file_system.h"

namespace lathe {

/// Passes everything on to another file system until the fault that `Plan` asks for.  Operations
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
  /// Counts one operation; not ok if it must fail.
  Status step(const char* what, const std::string& path);

  FileSystem& base_;
  Plan plan_;
  int64_t operations_ = 0;
  int64_t written_bytes_ = 0;
  std::set<std::string> unsynced_folders_;  ///< made in a folder that was not synced since
};

/// Passes a file's calls on, each counted.
class FaultyFileSystem::File : public WritableFile {
 public:
  File(FaultyFileSystem& fs, std::string path, std::unique_ptr<WritableFile> base)
      : fs_(fs), path_(std::move(path)), base_(std::move(base)) {}

  Status append(std::span<const std::byte> bytes) override {
    const Status fault = fs_.step("write", path_);
    if (fs_.crashed()) return fault;
    size_t fits = fault.ok() ? bytes.size() : bytes.size() / 2;
    const int64_t room = fs_.plan_.disk_bytes - fs_.written_bytes_;
    const bool full = static_cast<int64_t>(fits) > room;
    if (full) fits = static_cast<size_t>(room);
    fs_.written_bytes_ += static_cast<int64_t>(fits);
    unsynced_.insert(unsynced_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(fits));
    if (!fs_.plan_.lose_unsynced) {
      Status status = flush();
      if (!status.ok()) return status;
    }
    if (!fault.ok()) return fault;
    return full ? Status(ErrorCode::kIo, fmt::format("{}: cannot write: No space left on device", path_))
                : Status();
  }

  Status sync() override {
    Status fault = fs_.step("sync", path_);
    if (!fault.ok()) return fault;
    return flush();
  }

  Status close() override {
    Status fault = fs_.step("close", path_);
    Status closed = base_->close();
    return fault.ok() ? closed : fault;
  }

 private:
  Status flush() {
    Status status = base_->append(unsynced_);
    unsynced_.clear();
    return status;
  }

  FaultyFileSystem& fs_;
  std::string path_;
  std::unique_ptr<WritableFile> base_;
  std::vector<std::byte> unsynced_;
};

inline Status FaultyFileSystem::step(const char* what, const std::string& path) {
  const int64_t index = operations_++;
  if (index == plan_.crash_at && plan_.lose_unsynced)
    for (const std::string& folder : unsynced_folders_) base_.remove_all(folder).check();
  if (index < plan_.crash_at && index != plan_.fail_at) return {};
  return Status(ErrorCode::kIo,
                fmt::format("{}: cannot {}: Input/output error (operation {})", path, what, index));
}

inline Result<std::string> FaultyFileSystem::read(const std::string& path, uint64_t limit_bytes) {
  return base_.read(path, limit_bytes);
}
inline Result<MappedFile> FaultyFileSystem::map(const std::string& path) { return base_.map(path); }
inline bool FaultyFileSystem::exists(const std::string& path) { return base_.exists(path); }
inline bool FaultyFileSystem::is_directory(const std::string& path) { return base_.is_directory(path); }
inline bool FaultyFileSystem::is_special(const std::string& path) { return base_.is_special(path); }
inline bool FaultyFileSystem::is_writable(const std::string& path) { return base_.is_writable(path); }
inline Result<std::vector<std::string>> FaultyFileSystem::list(const std::string& path) {
  return base_.list(path);
}

inline Result<uint64_t> FaultyFileSystem::free_bytes(const std::string& path) {
  if (!plan_.tells_room) return Status(ErrorCode::kUnsupported, "free_bytes: made unsupported");
  if (plan_.disk_bytes == kNever) return base_.free_bytes(path);
  return static_cast<uint64_t>(plan_.disk_bytes - written_bytes_);
}

inline Result<std::unique_ptr<WritableFile>> FaultyFileSystem::create(const std::string& path) {
  Status fault = step("create", path);
  if (!fault.ok()) return fault;
  Result<std::unique_ptr<WritableFile>> file = base_.create(path);
  if (!file.ok()) return file;
  return std::unique_ptr<WritableFile>(new File(*this, path, std::move(file.value())));
}

inline Status FaultyFileSystem::rename(const std::string& from, const std::string& to) {
  Status fault = step("rename", from);
  const bool is_new = file_name(from).starts_with(kTemporaryPrefix);
  if (fault.ok() && !plan_.renames_folders && !is_new && base_.is_directory(from))
    return Status(ErrorCode::kUnsupported, fmt::format("{}: cannot rename to {}", from, to));
  return fault.ok() ? base_.rename(from, to) : fault;
}

inline Status FaultyFileSystem::exchange(const std::string& a, const std::string& b) {
  Status fault = step("swap", a);
  if (!fault.ok()) return fault;
  if (plan_.can_exchange) return base_.exchange(a, b);
  return Status(ErrorCode::kUnsupported, fmt::format("{}: this disk format cannot swap names", a));
}

inline Status FaultyFileSystem::sync(const std::string& path) {
  Status fault = step("sync", path);
  if (fault.ok())
    std::erase_if(unsynced_folders_, [&](const std::string& made) { return parent_folder(made) == path; });
  return fault;
}

inline Status FaultyFileSystem::create_folder(const std::string& path) {
  Status fault = step("create folder", path);
  if (!fault.ok()) return fault;
  if (!base_.exists(path)) unsynced_folders_.insert(path);
  return base_.create_folder(path);
}

inline Status FaultyFileSystem::remove_all(const std::string& path) {
  Status fault = step("remove", path);
  return fault.ok() ? base_.remove_all(path) : fault;
}

inline Status FaultyFileSystem::remove_empty_folder(const std::string& path) {
  Status fault = step("remove folder", path);
  return fault.ok() ? base_.remove_empty_folder(path) : fault;
}

}  // namespace lathe
