#include "lathe/io/faulty_file_system.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe {

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

Status FaultyFileSystem::step(const char* what, const std::string& path) {
  const int64_t index = operations_++;
  if (index == plan_.crash_at && plan_.lose_unsynced)
    for (const std::string& folder : unsynced_folders_) base_.remove_all(folder).check();
  if (index < plan_.crash_at && index != plan_.fail_at) return {};
  return Status(ErrorCode::kIo,
                fmt::format("{}: cannot {}: Input/output error (operation {})", path, what, index));
}

Result<std::string> FaultyFileSystem::read(const std::string& path, uint64_t limit_bytes) {
  return base_.read(path, limit_bytes);
}
Result<MappedFile> FaultyFileSystem::map(const std::string& path) { return base_.map(path); }
bool FaultyFileSystem::exists(const std::string& path) { return base_.exists(path); }
bool FaultyFileSystem::is_directory(const std::string& path) { return base_.is_directory(path); }
bool FaultyFileSystem::is_special(const std::string& path) { return base_.is_special(path); }
bool FaultyFileSystem::is_writable(const std::string& path) { return base_.is_writable(path); }
Result<std::vector<std::string>> FaultyFileSystem::list(const std::string& path) { return base_.list(path); }

Result<uint64_t> FaultyFileSystem::free_bytes(const std::string& path) {
  if (!plan_.tells_room) return Status(ErrorCode::kUnsupported, "free_bytes: made unsupported");
  if (plan_.disk_bytes == kNever) return base_.free_bytes(path);
  return static_cast<uint64_t>(plan_.disk_bytes - written_bytes_);
}

Result<std::unique_ptr<WritableFile>> FaultyFileSystem::create(const std::string& path) {
  Status fault = step("create", path);
  if (!fault.ok()) return fault;
  Result<std::unique_ptr<WritableFile>> file = base_.create(path);
  if (!file.ok()) return file;
  return std::unique_ptr<WritableFile>(new File(*this, path, std::move(file.value())));
}

Status FaultyFileSystem::rename(const std::string& from, const std::string& to) {
  Status fault = step("rename", from);
  const bool is_new = file_name(from).starts_with(kTemporaryPrefix);
  if (fault.ok() && !plan_.renames_folders && !is_new && base_.is_directory(from))
    return Status(ErrorCode::kUnsupported, fmt::format("{}: cannot rename to {}", from, to));
  return fault.ok() ? base_.rename(from, to) : fault;
}

Status FaultyFileSystem::exchange(const std::string& a, const std::string& b) {
  Status fault = step("swap", a);
  if (!fault.ok()) return fault;
  if (plan_.can_exchange) return base_.exchange(a, b);
  return Status(ErrorCode::kUnsupported, fmt::format("{}: this disk format cannot swap names", a));
}

Status FaultyFileSystem::sync(const std::string& path) {
  Status fault = step("sync", path);
  if (fault.ok())
    std::erase_if(unsynced_folders_, [&](const std::string& made) { return parent_folder(made) == path; });
  return fault;
}

Status FaultyFileSystem::create_folder(const std::string& path) {
  Status fault = step("create folder", path);
  if (!fault.ok()) return fault;
  if (!base_.exists(path)) unsynced_folders_.insert(path);
  return base_.create_folder(path);
}

Status FaultyFileSystem::remove_all(const std::string& path) {
  Status fault = step("remove", path);
  return fault.ok() ? base_.remove_all(path) : fault;
}

Status FaultyFileSystem::remove_empty_folder(const std::string& path) {
  Status fault = step("remove folder", path);
  return fault.ok() ? base_.remove_empty_folder(path) : fault;
}

}  // namespace lathe
