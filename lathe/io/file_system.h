#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/error.h"

namespace lathe {

/// The bytes of a file, valid as long as this object (or a copy of it) lives.  Of a real file they are a
/// read-only mapping: cutting the file short while it is mapped is outside of what the library can survive
/// (SIGBUS; the program says why it ends).
class MappedFile {
 public:
  MappedFile() = default;
  /// mapped: the bytes are a mapping of the file, not a copy.
  MappedFile(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, bool mapped = false)
      : bytes_(bytes), owner_(std::move(owner)), mapped_(mapped) {}
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }
  /// Says that a part of them is not wanted soon: its pages leave the memory of this process, and come again
  /// when they are read.
  void release(std::span<const std::byte> part) const;

 private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  bool mapped_ = false;
};

/// A file open for writing from its start.  The destructor closes and ignores errors; `close` returns them.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status append(std::span<const std::byte> bytes) = 0;
  /// Returns when the bytes are on the disk, if they go to one.
  virtual Status sync() = 0;
  virtual Status close() = 0;
};

/// What a writer callback gets: call it once for every chunk and return its error immediately.
using Sink = std::function<Status(std::span<const std::byte>)>;
using Writer = std::function<Status(const Sink&)>;

/// The most bytes of a file of settings, of a tokenizer or of notes: the largest tokenizer.json that models
/// ship has half of them.
inline constexpr uint64_t kSmallFileBytes = uint64_t{64} << 20;
/// The most bytes of a file that grows with each step of a training, as trainer_state.json does.
inline constexpr uint64_t kLogFileBytes = uint64_t{1} << 30;

/// All access to the disk goes through here, so that tests can inject faults.  Methods may be called from any
/// thread. Failures are kNotFound (no such file) or kIo; the message names the path and the system's reason.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// As bounded_read.  limit_bytes: what the caller has use for.
  virtual Result<std::string> read(const std::string& path, uint64_t limit_bytes = kSmallFileBytes) = 0;
  /// Only files: of a pipe or a device kIo.
  virtual Result<MappedFile> map(const std::string& path) = 0;
  /// Opens for writing and cuts to zero bytes what is there.
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path) = 0;
  /// A file replaces a file in one step; a folder takes the place of an empty folder at most.  kUnsupported
  /// for a folder that the disk format cannot move: on overlayfs one of a lower layer.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  /// Swaps two names in one step.  kUnsupported where the system or its disk format cannot.
  virtual Status exchange(const std::string& a, const std::string& b) = 0;
  /// Brings a file's bytes or a folder's entries to the disk.
  virtual Status sync(const std::string& path) = 0;
  /// Makes one folder in another that is there.  One that is there already is success.
  virtual Status create_folder(const std::string& path) = 0;
  /// Nothing there is success.
  virtual Status remove_all(const std::string& path) = 0;
  /// Removes a folder that nothing is in.  Errors: kIo, too, where something is.
  virtual Status remove_empty_folder(const std::string& path) = 0;
  /// Names (not paths) in the folder, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  virtual bool is_directory(const std::string& path) = 0;
  /// A device, a pipe or the like, links followed: neither a file nor a folder.  Also a link into /proc, as
  /// /dev/stdout is one, and /dev/fd/N: what this process has open is written on with, as it was opened.
  virtual bool is_special(const std::string& path) = 0;
  /// Whether a file can be written at, or a folder made at, `path` as far as permissions tell; asks the
  /// nearest folder that exists.
  virtual bool is_writable(const std::string& path) = 0;
  /// Bytes free for this user on the disk that holds `path` (or the nearest folder above that exists).
  /// Errors: kUnsupported where it does not say how large it is, like ramfs and some of FUSE.
  virtual Result<uint64_t> free_bytes(const std::string& path) = 0;

  /// Whether it can be known if something is at `path`.  Errors: kIo, where a folder above may not be
  /// searched.
  Status can_look_for(const std::string& path);

  /// Makes a folder and those above it that are missing, and brings their names to the disk.
  Status create_directories(const std::string& path);

  /// Writes and syncs a file under its own name, folders made as needed; not atomic: for what lies in a
  /// temporary folder.
  Status write(const std::string& path, const Writer& writer);

  /// Writes a whole file: all of the new content stands under `path` or what was there before stays, whatever
  /// fails and whenever the process or the power stops.  Goes through `.tmp-<name>-<pid>-<n>` in the same
  /// folder (created if missing): write, sync, rename, sync folder.  What is special is written in place.
  Status write_atomic(const std::string& path, const Writer& writer);
  Status write_atomic(const std::string& path, std::string_view content);
};

FileSystem& real_file_system();

/// How the names of what is not whole yet begin.
inline constexpr std::string_view kTemporaryPrefix = ".tmp-";
/// `<folder>/.tmp-<name>-<pid>-<n>` for the last part of `path`; a new name at each call, which nothing
/// bears.
std::string temporary_name(const std::string& path);
/// What the names of folders end with, before `-<pid>-<n>`, that are put by until another has taken their
/// place.
inline constexpr std::string_view kReplacedSuffix = ".replaced";
/// `<path>.replaced-<pid>-<n>`, likewise.
std::string replaced_name(const std::string& path);
/// Text as bytes.
std::span<const std::byte> as_bytes(std::string_view text);
/// Joins with one '/'; an empty folder gives `name`.
std::string join_path(std::string_view folder, std::string_view name);
/// "a/b/c" → "a/b"; "c" → "."; "/c" → "/".  Trailing slashes are ignored.
std::string parent_folder(std::string_view path);
/// "a/b/c" → "c".  Trailing slashes are ignored.
std::string file_name(std::string_view path);

}  // namespace lathe
