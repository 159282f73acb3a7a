#include "lathe/io/file_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "lathe/io/bounded_read.h"
#include "lathe/io/descriptor.h"

namespace lathe {
namespace {

namespace stdfs = std::filesystem;
using posix::Descriptor, posix::failure, posix::nearest_existing;

// macOS refuses writes of 2 GiB and more, Linux cuts them short.
constexpr size_t kWriteChunkBytes = size_t{64} << 20;
constexpr size_t kWriteOutBytes = size_t{16} << 20;

int sync_descriptor(int fd) {
#ifdef __APPLE__
  if (fcntl(fd, F_FULLFSYNC) == 0) return 0;  // fsync there stops at the drive's cache
#endif
  return fsync(fd);
}

/// N where the path, or what it links to, is /dev/fd/N, a stream that this process has open; else −1.  Opened
/// by that name a file would be open anew: from its beginning, cut off, and for writing though the stream is
/// for reading.
int stream_of(const stdfs::path& path) {
  constexpr int kMostLinks = 8;
  std::error_code ignored;
  const stdfs::path streams = stdfs::canonical("/dev/fd", ignored);
  stdfs::path at = path;
  for (int links = 0; links < kMostLinks && !streams.empty(); ++links) {
    const stdfs::path folder = at.has_parent_path() ? at.parent_path() : ".";
    if (stdfs::canonical(folder, ignored) == streams) {
      const std::string name = at.filename();
      int number = -1;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
      return error == std::errc() && end == name.data() + name.size() ? number : -1;
    }
    const stdfs::path link = stdfs::read_symlink(at, ignored);
    if (link.empty()) break;
    at = folder / link;
  }
  return -1;
}

class RealFile : public WritableFile {
 public:
  RealFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  Status append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_.get(), bytes.data(), std::min(bytes.size(), kWriteChunkBytes));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failure("write", path_, errno);
      bytes = bytes.subspan(static_cast<size_t>(n));
      written_ += n;
    }
    begin_write_out();
    return {};
  }

  Status sync() override {
    const bool done = sync_descriptor(fd_.get()) == 0 || errno == EINVAL;  // EINVAL: a device or a pipe
    return done ? Status() : failure("sync", path_, errno);
  }

  Status close() override {
    const int fd = fd_.release();
    return fd < 0 || ::close(fd) == 0 ? Status() : failure("close", path_, errno);
  }

 private:
  /// The disk works while more is made, and a later sync has little left to wait for.
  void begin_write_out() {
    if (written_ - begun_ < off_t{kWriteOutBytes}) return;
#ifdef __linux__
    (void)sync_file_range(fd_.get(), begun_, written_ - begun_, SYNC_FILE_RANGE_WRITE);  // a pipe has none
#endif
    begun_ = written_;
  }

  std::string path_;
  Descriptor fd_;
  off_t written_ = 0, begun_ = 0;  ///< bytes, in all and of them those that are on their way
};

struct Mapping {
  void* address;
  size_t bytes;
  ~Mapping() { munmap(address, bytes); }
};

class RealFileSystem : public FileSystem {
 public:
  Result<std::string> read(const std::string& path, uint64_t limit_bytes) override {
    return bounded_read(path, {limit_bytes});
  }

  Result<MappedFile> map(const std::string& path) override {
    const Descriptor fd(
        ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe: do not wait for it
    if (fd.get() < 0) return failure("open", path, errno);
    struct stat info {};
    if (fstat(fd.get(), &info) != 0) return failure("read", path, errno);
    if (S_ISDIR(info.st_mode)) return failure("read", path, EISDIR);
    if (!S_ISREG(info.st_mode))
      return Status(ErrorCode::kIo, path + ": found a pipe or a device, expected a file: copy it to one");
    const size_t bytes = static_cast<size_t>(info.st_size);
    if (bytes == 0) return MappedFile();
    void* address = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (address == MAP_FAILED) return failure("map", path, errno);
    return MappedFile({static_cast<const std::byte*>(address), bytes},
                      std::shared_ptr<const Mapping>(new Mapping{address, bytes}), true);
  }

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    const int stream = stream_of(path);
    const int fd = stream >= 0 ? ::fcntl(stream, F_DUPFD_CLOEXEC, 0)
                               : ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return failure("create", path, errno);
    return std::unique_ptr<WritableFile>(new RealFile(path, fd));
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (std::rename(from.c_str(), to.c_str()) == 0) return {};
    const int error = errno;
    const Status failed = failure("rename to " + to, from, error);
    return error == EXDEV && is_directory(from) ? Status(ErrorCode::kUnsupported, failed.message()) : failed;
  }

  Status exchange(const std::string& a, const std::string& b) override {
#if defined(__linux__) && defined(SYS_renameat2)
    constexpr unsigned kExchange = 2;  // RENAME_EXCHANGE
    const long result = syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), kExchange);
#elif defined(__APPLE__)
    const long result = renamex_np(a.c_str(), b.c_str(), RENAME_SWAP);
#else
    const long result = -1;
    errno = ENOSYS;
#endif
    if (result == 0) return {};
    if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP || errno == EOPNOTSUPP)
      return Status(ErrorCode::kUnsupported, fmt::format("{}: this disk format cannot swap names", a));
    return failure("swap with " + b, a, errno);
  }

  Status sync(const std::string& path) override {
    const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    // A folder that may be written to, but not listed, takes files all the same.
    if (fd.get() < 0 && errno == EACCES && is_directory(path)) return {};
    if (fd.get() < 0) return failure("open", path, errno);
    if (sync_descriptor(fd.get()) == 0) return {};
    // Some network and FUSE file systems cannot sync a folder and say so; there is nothing more to do there.
    if ((errno == EINVAL || errno == ENOTSUP || errno == ENOSYS) && is_directory(path)) return {};
    return failure("sync", path, errno);
  }

  Status create_folder(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) == 0) return {};
    const int error = errno;
    if (error == EEXIST && is_directory(path)) return {};
    return failure("create folder", path, error == EEXIST ? ENOTDIR : error);
  }

  Status remove_all(const std::string& path) override {
    // What another process removes at the same time is gone as well: then there is less to list.
    constexpr int kMostTimes = 100;
    std::error_code error = std::make_error_code(std::errc::no_such_file_or_directory);
    for (int times = 0; times < kMostTimes && error == std::errc::no_such_file_or_directory; ++times)
      stdfs::remove_all(path, error);
    return error ? failure("remove", path, error.value()) : Status();
  }

  Status remove_empty_folder(const std::string& path) override {
    return ::rmdir(path.c_str()) == 0 ? Status() : failure("remove folder", path, errno);
  }

  Result<std::vector<std::string>> list(const std::string& path) override {
    std::vector<std::string> names;
    std::error_code error;
    for (stdfs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
      names.push_back(entry->path().filename().string());
    if (error) return failure("list", path, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }

  bool exists(const std::string& path) override {
    std::error_code ignored;
    return stdfs::exists(path, ignored);
  }

  bool is_directory(const std::string& path) override {
    std::error_code ignored;
    return stdfs::is_directory(path, ignored);
  }

  bool is_special(const std::string& path) override {
    std::error_code ignored;
    const stdfs::file_status there = stdfs::status(path, ignored);
    if (stdfs::exists(there) && stdfs::is_other(there)) return true;
    return stream_of(path) >= 0 || stdfs::read_symlink(path, ignored).string().starts_with("/proc/");
  }

  bool is_writable(const std::string& path) override {
    const std::string nearest = nearest_existing(path);
    // A file stands where a folder is needed.
    if (nearest != path && !is_directory(nearest)) return false;
    return ::access(nearest.c_str(), is_directory(nearest) ? W_OK | X_OK : W_OK) == 0;
  }

  Result<uint64_t> free_bytes(const std::string& path) override {
    struct statvfs info {};
    const std::string nearest = nearest_existing(path);
    if (statvfs(nearest.c_str(), &info) != 0) return failure("ask for free space", nearest, errno);
    if (info.f_blocks == 0)
      return Status(ErrorCode::kUnsupported, nearest + ": the file system does not say how large it is");
    return static_cast<uint64_t>(info.f_bavail) * static_cast<uint64_t>(info.f_frsize);
  }
};

std::string_view without_trailing_slashes(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

/// `<folder>/<name>-<pid>-<n>`.  A process that had this one's id may have left some.
std::string unused_name(const std::string& name, const std::string& folder) {
  static std::atomic<uint64_t> counter{0};
  for (;;) {
    const std::string path = join_path(folder, fmt::format("{}-{}-{}", name, getpid(), counter.fetch_add(1)));
    std::error_code ignored;
    if (!stdfs::exists(stdfs::symlink_status(path, ignored))) return path;
  }
}

/// Removes a temporary file when the writer fails or throws.
class TemporaryFile {
 public:
  TemporaryFile(FileSystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}
  ~TemporaryFile() {
    if (path_.empty()) return;
    [[maybe_unused]] const Status ignored = fs_.remove_all(path_);  // the first error is the one to tell
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }
  void keep() { path_.clear(); }

 private:
  FileSystem& fs_;
  std::string path_;
};

}  // namespace

FileSystem& real_file_system() {
  static RealFileSystem instance;
  return instance;
}

Status FileSystem::can_look_for(const std::string& path) {
  if (exists(path)) return {};
  const Status status = read(path).status();
  return status.code() == ErrorCode::kNotFound ? Status() : status;
}

Status FileSystem::create_directories(const std::string& path) {
  if (is_directory(path)) return {};
  const std::string above = parent_folder(path);
  if (above != path && !is_directory(above))
    if (Status status = create_directories(above); !status.ok()) return status;
  const Status status = create_folder(path);
  return status.ok() ? sync(above) : status;
}

Status FileSystem::write(const std::string& path, const Writer& writer) {
  const std::string folder = parent_folder(path);
  if (!is_directory(folder)) {
    Status created = create_directories(folder);
    if (!created.ok()) return created;
  }
  Result<std::unique_ptr<WritableFile>> file = create(path);
  if (!file.ok()) return file.status();
  WritableFile& out = *file.value();
  Status status = writer([&out](std::span<const std::byte> bytes) { return out.append(bytes); });
  if (status.ok()) status = out.sync();
  Status closed = out.close();
  return status.ok() ? closed : status;
}

Status FileSystem::write_atomic(const std::string& path, const Writer& writer) {
  if (is_special(path)) return write(path, writer);
  TemporaryFile temporary(*this, temporary_name(path));
  Status status = write(temporary.path(), writer);
  if (status.ok()) status = rename(temporary.path(), path);
  if (!status.ok()) return status;
  temporary.keep();
  return sync(parent_folder(path));
}

Status FileSystem::write_atomic(const std::string& path, std::string_view content) {
  return write_atomic(path, [content](const Sink& sink) { return sink(as_bytes(content)); });
}

std::string temporary_name(const std::string& path) {
  return unused_name(fmt::format("{}{}", kTemporaryPrefix, file_name(path)), parent_folder(path));
}

std::string replaced_name(const std::string& path) {
  return unused_name(file_name(path) + std::string(kReplacedSuffix), parent_folder(path));
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string join_path(std::string_view folder, std::string_view name) {
  if (folder.empty() || folder == ".") return std::string(name);
  return fmt::format("{}{}{}", folder, folder.back() == '/' ? "" : "/", name);
}

std::string parent_folder(std::string_view path) {
  path = without_trailing_slashes(path);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(slash == 0 ? "/" : without_trailing_slashes(path.substr(0, slash)));
}

std::string file_name(std::string_view path) {
  path = without_trailing_slashes(path);
  return std::string(path.substr(path.rfind('/') + 1));  // npos + 1 is 0
}

void MappedFile::release(std::span<const std::byte> part) const {
  if (!mapped_ || part.empty()) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(part.data()) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(part.data() + part.size());
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // read-only: nothing is lost
}

}  // namespace lathe
