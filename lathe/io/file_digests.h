#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lathe/io/file_system.h"

namespace lathe {

/// What the bytes of a file were: how many, and the SHA-256 of each 64 MiB of them, which several threads can
/// check at once.
struct FileDigest {
  static constexpr uint64_t kChunk = uint64_t{64} << 20;
  uint64_t bytes = 0;
  std::vector<std::string> sha256;  ///< one for each chunk; the last chunk may be shorter
  bool operator==(const FileDigest&) const = default;
};
/// By the file's name within its folder.
using FileDigests = std::map<std::string, FileDigest>;

nlohmann::json to_json(const FileDigests& digests);
/// Errors: kInvalidData, beginning with `where`.
FileDigests file_digests_from(const nlohmann::json& json, const std::string& where);

/// How a file is not what its digest says.
struct FileFault {
  std::string name;
  Status status;  ///< kInvalidData, kNotFound or kIo; the message begins with the path
};
/// All files of a folder that are not as they were, by name.  Reads each once, on as many threads as this
/// process has cores.
std::vector<FileFault> faults_of(FileSystem& fs, const std::string& folder, const FileDigests& digests);

/// Passes everything on to another file system, and makes the digest of each file that is written through it.
/// Another thread hashes what is written, and syncs do not wait for it.  One file is written at a time.
class DigestingFileSystem : public FileSystem {
 public:
  explicit DigestingFileSystem(FileSystem& base);
  ~DigestingFileSystem() override;

  /// Of the files in a folder now that were written through this object.
  FileDigests digests(const std::string& folder) const;

  Result<std::string> read(const std::string& path, uint64_t limit_bytes) override {
    return base_.read(path, limit_bytes);
  }
  Result<MappedFile> map(const std::string& path) override { return base_.map(path); }
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status exchange(const std::string& a, const std::string& b) override { return base_.exchange(a, b); }
  Status sync(const std::string& path) override { return base_.sync(path); }
  Status create_folder(const std::string& path) override { return base_.create_folder(path); }
  Status remove_all(const std::string& path) override;
  Status remove_empty_folder(const std::string& path) override { return base_.remove_empty_folder(path); }
  Result<std::vector<std::string>> list(const std::string& path) override { return base_.list(path); }
  bool exists(const std::string& path) override { return base_.exists(path); }
  bool is_directory(const std::string& path) override { return base_.is_directory(path); }
  bool is_special(const std::string& path) override { return base_.is_special(path); }
  bool is_writable(const std::string& path) override { return base_.is_writable(path); }
  Result<uint64_t> free_bytes(const std::string& path) override { return base_.free_bytes(path); }

 private:
  class File;
  class Hasher;

  FileSystem& base_;
  mutable std::mutex mutex_;
  FileDigests by_path_;
  std::unique_ptr<Hasher> hasher_;
};

}  // namespace lathe
