#include "lathe/io/hub/hub_download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <mutex>

#include "lathe/io/digest.h"

namespace lathe {
namespace {

// A part takes long compared with the request for it, and is short enough that a broken one costs little.
constexpr uint64_t kPartBytes = uint64_t{16} << 20;
constexpr int kConnections = 4;
// Tries that brought this much have got on: they do not count.
constexpr uint64_t kProgressBytes = uint64_t{1} << 20;
constexpr auto kAskToStop = std::chrono::milliseconds(100);

/// A file that grows at its end.
class GrowingFile {
 public:
  explicit GrowingFile(std::string path)
      : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
    struct stat info {};
    if (fd_ < 0 || fstat(fd_, &info) != 0) raise(errno);
    size_ = static_cast<uint64_t>(info.st_size);
  }
  ~GrowingFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  uint64_t size() const { return size_; }
  void cut(uint64_t bytes) {
    if (bytes >= size_) return;
    if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0) raise(errno);
    size_ = bytes;
  }
  /// 0, or the system's error.
  int append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno;
      bytes = bytes.subspan(static_cast<size_t>(n));
      size_ += static_cast<uint64_t>(n);
    }
    return 0;
  }
  [[noreturn]] void raise(int error) const {
    const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
    fail(ErrorCode::kIo, "{}: cannot write: {}{}", path_, std::generic_category().message(error),
         full ? "; make room on that disk, or name another by HF_HUB_CACHE; what was fetched is kept" : "");
  }

 private:
  std::string path_;
  int fd_;
  uint64_t size_ = 0;
};

/// Adds up the bytes of all connections.
class Meter {
 public:
  Meter(const HubSettings& settings, const RemoteFile& file) : settings_(settings), file_(file) {}
  void add(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_ += static_cast<uint64_t>(bytes);
    if (settings_.progress && done_ < file_.size) settings_.progress(file_.name, done_, file_.size);
  }

 private:
  const HubSettings& settings_;
  const RemoteFile& file_;
  std::mutex mutex_;
  uint64_t done_ = 0;
};

/// Where a 206 begins, by its Content-Range "bytes a-b/n".
bool begins_at(const HttpResponse& response, uint64_t begin) {
  return response.header("content-range").starts_with(fmt::format("bytes {}-", begin));
}

/// Bytes [begin, end) of a file, over one connection.
class Range {
 public:
  Range(const HubClient& client, const RemoteFile& remote, uint64_t begin, uint64_t end,
        const std::function<bool()>& should_stop)
      : client_(client), remote_(remote), begin_(begin), end_(end), should_stop_(should_stop) {}

  /// Appends to `out` what it lacks.  False where the server sends nothing but whole files and this is not
  /// one.
  bool fetch(HttpClient& http, GrowingFile& out, Meter& meter) {
    out.cut(end_ - begin_);
    meter.add(static_cast<int64_t>(out.size()));
    uint64_t reached = out.size();  // what is thrown away and comes again is no progress
    for (int attempt = 1; begin_ + out.size() < end_;) {
      const HttpResponse response = ask(http, out, meter);
      if (disk_error_ != 0) out.raise(disk_error_);
      if (whole_file_only_) return false;
      if (begin_ + out.size() == end_) break;
      if (out.size() >= reached + kProgressBytes) attempt = 1, reached = out.size();
      if (response.status == 416) restart(out, meter);
      const bool short_answer = response.ok();  // it ended early, and says that this was all
      if (!short_answer && response.status != 416 && !HubClient::is_passing(response))
        client_.raise(response, remote_.name);
      if (attempt == HubClient::kTries) client_.raise(cut_short(response), remote_.name);
      client_.wait(short_answer ? cut_short(response) : response, attempt++, remote_.name, should_stop_);
    }
    return true;
  }

 private:
  HttpResponse ask(HttpClient& http, GrowingFile& out, Meter& meter) {
    HttpRequest request;
    request.url = remote_.url;
    request.token = client_.settings().token;
    request.timeout_s = client_.settings().download_timeout_s;
    request.should_stop = should_stop_;
    const uint64_t from = begin_ + out.size();
    if (from > 0 || end_ < remote_.size) request.begin = from, request.end = end_;
    bool first = true;
    request.sink = [&](const HttpResponse& response, std::span<const std::byte> bytes) {
      if (first && request.begin && !(response.status == 206 && begins_at(response, from))) {
        if (begin_ > 0 || end_ < remote_.size) {
          whole_file_only_ = true;
          return false;
        }
        restart(out, meter);  // no ranges here: all of it comes again
      }
      first = false;
      const auto wanted = bytes.first(std::min<uint64_t>(bytes.size(), end_ - begin_ - out.size()));
      disk_error_ = out.append(wanted);
      meter.add(static_cast<int64_t>(wanted.size()));
      return disk_error_ == 0 && wanted.size() == bytes.size();
    };
    return http.perform(request);
  }

  void restart(GrowingFile& out, Meter& meter) {
    meter.add(-static_cast<int64_t>(out.size()));
    out.cut(0);
  }

  static HttpResponse cut_short(HttpResponse response) {
    if (response.failure.empty() && response.status < 400) response.failure = "the transfer ended early";
    return response;
  }

  const HubClient& client_;
  const RemoteFile& remote_;
  uint64_t begin_, end_;
  const std::function<bool()>& should_stop_;
  int disk_error_ = 0;
  bool whole_file_only_ = false;
};

/// The parts of a file, each in a file of its own until it is its turn.
class Parts {
 public:
  Parts(FileSystem& fs, HubClient& client, const RemoteFile& file, const std::string& path)
      : fs_(fs),
        client_(client),
        file_(file),
        path_(path),
        count_(file.size / kPartBytes + (file.size % kPartBytes > 0 ? 1 : 0)) {}

  /// Fetches the parts from number `first` on.  False where the server sends whole files only.
  bool fetch(uint64_t first, Meter& meter) {
    next_ = first;
    std::vector<std::future<void>> connections;
    for (int i = 0; i < kConnections; ++i)
      connections.push_back(std::async(std::launch::async, [&] { work(meter); }));
    for (const std::future<void>& connection : connections)
      while (connection.wait_for(kAskToStop) != std::future_status::ready) ask_to_stop();
    if (error_) std::rethrow_exception(error_);
    return !refused_;
  }

  /// Appends the parts that are `out`'s next ones and whole.
  void join_to(GrowingFile& out) {
    for (uint64_t i = out.size() / kPartBytes; i < count_; ++i) {
      Result<MappedFile> part = fs_.map(path_of(i));
      if (!part.ok() || part.value().bytes().size() != end_of(i) - i * kPartBytes) return;
      out.cut(i * kPartBytes);  // of one that was being appended when the process ended
      if (const int error = out.append(part.value().bytes()); error != 0) out.raise(error);
      fs_.remove_all(path_of(i)).check();
    }
  }

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const std::string& part : part_files(fs_, path_)) sum += fs_.map(part).value().bytes().size();
    return sum;
  }

  void remove() {
    for (const std::string& part : part_files(fs_, path_)) fs_.remove_all(part).check();
  }

 private:
  std::string path_of(uint64_t i) const { return fmt::format("{}.part{}", path_, i); }
  uint64_t end_of(uint64_t i) const { return std::min((i + 1) * kPartBytes, file_.size); }

  void work(Meter& meter) {
    const std::function<bool()> given_up = [&] { return give_up_.load(); };
    try {
      HttpClient http;
      for (uint64_t i = next_++; i < count_ && !give_up_; i = next_++) {
        GrowingFile out(path_of(i));
        Range range(client_, file_, i * kPartBytes, end_of(i), given_up);
        if (range.fetch(http, out, meter)) continue;
        refused_ = true;
        give_up(nullptr);
      }
    } catch (...) {
      give_up(std::current_exception());
    }
  }

  void ask_to_stop() {
    if (give_up_) return;
    try {
      if (client_.settings().is_stopped())
        fail(ErrorCode::kInterrupted, "{}: stopped; what was fetched is kept", file_.name);
    } catch (...) {
      give_up(std::current_exception());
    }
  }

  /// The first reason counts: the others follow from it.
  void give_up(const std::exception_ptr& reason) {
    const std::lock_guard lock(mutex_);
    if (!give_up_) error_ = reason;
    give_up_ = true;
  }

  FileSystem& fs_;
  HubClient& client_;
  const RemoteFile& file_;
  const std::string& path_;
  const uint64_t count_;
  std::atomic<uint64_t> next_{0};
  std::atomic<bool> give_up_{false}, refused_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

/// Errors: kIo where the rest of the file, and what joining its parts takes meanwhile, does not fit.
void check_room(FileSystem& fs, const RemoteFile& file, uint64_t present, uint64_t joining,
                const std::string& path) {
  const uint64_t needed = file.size + joining;
  Result<uint64_t> room = fs.free_bytes(path);
  if (!room.ok() || present + room.value() >= needed) return;
  fail(
      ErrorCode::kIo,
      "{}: needs {} bytes on the disk of {}, found {} free: make room, or name another place by HF_HUB_CACHE",
      file.name, needed - present, parent_folder(path), room.value());
}

/// False where the server sends whole files only.
bool fetch_in_parts(Parts& parts, const HubSettings& settings, const RemoteFile& file, GrowingFile& out) {
  parts.join_to(out);
  if (out.size() == file.size) return true;
  out.cut(out.size() / kPartBytes * kPartBytes);
  Meter meter(settings, file);
  meter.add(static_cast<int64_t>(out.size()));
  const bool fetched = parts.fetch(out.size() / kPartBytes, meter);
  if (fetched)
    parts.join_to(out);
  else
    parts.remove();
  return fetched;
}

}  // namespace

void download_bytes(FileSystem& fs, HubClient& client, const RemoteFile& file, const std::string& path) {
  GrowingFile out(path);
  out.cut(file.size);
  Parts parts(fs, client, file, path);
  const uint64_t apart = parts.bytes();
  const bool in_parts = apart > 0 || file.size - out.size() > 2 * kPartBytes;
  check_room(fs, file, out.size() + apart, in_parts ? kPartBytes : 0, path);
  if (in_parts && fetch_in_parts(parts, client.settings(), file, out)) return;
  Meter meter(client.settings(), file);
  HttpClient http;
  Range(client, file, 0, file.size, client.settings().should_stop).fetch(http, out, meter);
}

std::vector<std::string> part_files(FileSystem& fs, const std::string& path) {
  const std::string folder = parent_folder(path), begin = file_name(path) + ".part";
  std::vector<std::string> parts;
  for (const std::string& name : fs.list(folder).value())
    if (name.starts_with(begin) && name.find_first_not_of("0123456789", begin.size()) == std::string::npos)
      parts.push_back(join_path(folder, name));
  return parts;
}

bool has_right_hash(FileSystem& fs, const std::string& path, const std::string& etag) {
  const MappedFile content = fs.map(path).value();
  return (etag.size() == 64 ? sha256_hex(content.bytes()) : git_blob_hex(content.bytes())) == etag;
}

}  // namespace lathe
