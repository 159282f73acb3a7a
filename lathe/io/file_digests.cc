#include "lathe/io/file_digests.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "lathe/core/cpu_limits.h"
#include "lathe/core/error.h"
#include "lathe/core/start_thread.h"
#include "lathe/core/thread_pool.h"
#include "lathe/io/digest.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

constexpr size_t kHexDigits = 64;

uint64_t chunks_of(uint64_t bytes) {
  return bytes / FileDigest::kChunk + (bytes % FileDigest::kChunk == 0 ? 0 : 1);
}

bool is_sha256(const std::string& text) {
  return text.size() == kHexDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// The digest of bytes that come one part after another.
class Digester {
 public:
  void add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min<uint64_t>(bytes.size(), FileDigest::kChunk - in_chunk_));
      hash_.add(part);
      in_chunk_ += part.size();
      digest_.bytes += part.size();
      if (in_chunk_ == FileDigest::kChunk) end_chunk();
      bytes = bytes.subspan(part.size());
    }
  }

  FileDigest take() {
    if (in_chunk_ > 0) end_chunk();
    return std::exchange(digest_, {});
  }

 private:
  void end_chunk() {
    digest_.sha256.push_back(hash_.take_hex());
    in_chunk_ = 0;
  }

  Sha256 hash_;
  uint64_t in_chunk_ = 0;
  FileDigest digest_;
};

/// A file whose bytes are to be read.
struct Opened {
  std::string name;
  const FileDigest* digest;
  MappedFile file;
  size_t first_chunk = 0;  ///< among those of all files
};

/// Its pages leave the memory of this process again: to go on from a checkpoint takes no more than before.
std::string sha256_of_mapped(const MappedFile& file, std::span<const std::byte> bytes) {
  constexpr size_t kPart = size_t{1} << 20;
  Sha256 hash;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kPart));
    hash.add(part);
    file.release(part);
    bytes = bytes.subspan(part.size());
  }
  return hash.take_hex();
}

/// So many threads, or the caller only where the system gives no more.
std::unique_ptr<ThreadPool> pool_of(int threads) {
  try {
    return std::make_unique<ThreadPool>(threads);
  } catch (const Error&) {
    return std::make_unique<ThreadPool>(1);
  }
}

/// Runs work(part, parts) on all threads of a pool; what one of them throws, the caller does.
template <typename Work>
void run_on(ThreadPool& pool, const Work& work) {
  std::mutex mutex;
  std::exception_ptr thrown;
  pool.run([&](int part, int parts) {
    try {
      work(part, parts);
    } catch (...) {
      const std::lock_guard lock(mutex);
      thrown = std::current_exception();
    }
  });
  if (thrown) std::rethrow_exception(thrown);
}

/// By number of a chunk among those of all files.
std::vector<std::string> hashes_of(const std::vector<Opened>& files, size_t chunks) {
  std::vector<std::string> hashes(chunks);
  if (chunks == 0) return hashes;
  const auto threads = std::min(chunks, static_cast<size_t>(default_threads()));
  const auto pool = pool_of(static_cast<int>(threads));
  pool->deal(static_cast<long>(chunks));
  run_on(*pool, [&](int part, int) {
    for (long item = pool->next_item(part); item >= 0; item = pool->next_item(part)) {
      const auto chunk = static_cast<size_t>(item);
      const Opened& of = *std::prev(std::ranges::upper_bound(files, chunk, {}, &Opened::first_chunk));
      const auto rest = of.file.bytes().subspan((chunk - of.first_chunk) * FileDigest::kChunk);
      const auto bytes = rest.first(std::min<size_t>(rest.size(), FileDigest::kChunk));
      hashes[chunk] = sha256_of_mapped(of.file, bytes);
    }
  });
  return hashes;
}

}  // namespace

nlohmann::json to_json(const FileDigests& digests) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, digest] : digests)
    json[name] = {{"bytes", digest.bytes}, {"sha256", digest.sha256}};
  return json;
}

FileDigests file_digests_from(const nlohmann::json& json, const std::string& where) {
  if (!json.is_object()) fail(ErrorCode::kInvalidData, "{}: expected an object of files", where);
  FileDigests digests;
  for (const auto& [name, entry] : json.items()) {
    const std::string place = fmt::format("{}: {}", where, name);
    const auto bytes = required<int64_t>(entry, "bytes", place);
    FileDigest digest{static_cast<uint64_t>(bytes),
                      required<std::vector<std::string>>(entry, "sha256", place)};
    if (bytes < 0 || digest.sha256.size() != chunks_of(digest.bytes) ||
        !std::ranges::all_of(digest.sha256, is_sha256) || name.empty() || name.find('/') != std::string::npos)
      fail(ErrorCode::kInvalidData, "{}: no digest of a file: found {}", place, entry.dump().substr(0, 80));
    digests[name] = std::move(digest);
  }
  return digests;
}

std::vector<FileFault> faults_of(FileSystem& fs, const std::string& folder, const FileDigests& digests) {
  std::vector<FileFault> faults;
  std::vector<Opened> files;
  size_t chunks = 0;
  for (const auto& [name, digest] : digests) {
    const std::string path = join_path(folder, name);
    Result<MappedFile> file = fs.map(path);
    if (!file.ok()) {
      faults.push_back({name, file.status()});
    } else if (const size_t found = file.value().bytes().size(); found != digest.bytes) {
      faults.push_back(
          {name,
           {ErrorCode::kInvalidData, fmt::format("{}: found {} bytes, expected the {} that were written",
                                                 path, found, digest.bytes)}});
    } else if (digest.bytes > 0) {
      files.push_back({name, &digest, file.value(), chunks});
      chunks += digest.sha256.size();
    }
  }
  const std::vector<std::string> hashes = hashes_of(files, chunks);
  for (const Opened& of : files)
    if (!std::ranges::equal(of.digest->sha256,
                            std::span(hashes).subspan(of.first_chunk, of.digest->sha256.size())))
      faults.push_back({of.name,
                        {ErrorCode::kInvalidData, fmt::format("{}: found other bytes than were written",
                                                              join_path(folder, of.name))}});
  std::ranges::sort(faults, {}, &FileFault::name);
  return faults;
}

/// Hashes on a thread of its own what is given to it, in that order.  Parts are copied: a writer that waited
/// for each would be held up where cores are shared.
class DigestingFileSystem::Hasher {
 public:
  Hasher() {
    try {
      thread_ = start_thread([this] { work(); });
    } catch (const Error&) {  // the system gives no more threads
    }
  }
  ~Hasher() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  /// `digester` must live until `finish`.
  void add(Digester& digester, std::span<const std::byte> bytes) {
    if (!thread_.joinable()) return digester.add(bytes);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return given_ - done_ < parts_.size(); });
    Part& part = parts_[given_ % parts_.size()];
    lock.unlock();  // the thread does not look at it yet
    part.bytes.assign(bytes.begin(), bytes.end());
    part.digester = &digester;
    lock.lock();
    ++given_;
    changed_.notify_all();
  }

  /// Returns when all is hashed.
  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return given_ == done_; });
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }

 private:
  struct Part {
    Digester* digester = nullptr;
    std::vector<std::byte> bytes;
  };

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || given_ > done_; });
      if (stop_) return;
      const Part& part = parts_[done_ % parts_.size()];
      lock.unlock();
      std::exception_ptr thrown;
      try {
        part.digester->add(part.bytes);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      if (thrown) thrown_ = thrown;
      ++done_;
      changed_.notify_all();
    }
  }

  std::array<Part, 4> parts_;  // of 1 MiB each, as write_tensor gives them
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t given_ = 0, done_ = 0;
  std::exception_ptr thrown_;
  bool stop_ = false;
  std::thread thread_;
};

class DigestingFileSystem::File : public WritableFile {
 public:
  File(DigestingFileSystem& fs, std::string path, std::unique_ptr<WritableFile> base)
      : fs_(fs), path_(std::move(path)), base_(std::move(base)) {}
  ~File() override {
    try {
      fs_.hasher_->finish();
    } catch (...) {  // memory ended: nobody asks for this digest any more
    }
  }

  Status append(std::span<const std::byte> bytes) override {
    fs_.hasher_->add(digester_, bytes);
    return base_->append(bytes);
  }

  Status sync() override { return base_->sync(); }

  Status close() override {
    fs_.hasher_->finish();
    const std::lock_guard lock(fs_.mutex_);
    fs_.by_path_[path_] = digester_.take();
    return base_->close();
  }

 private:
  DigestingFileSystem& fs_;
  std::string path_;
  std::unique_ptr<WritableFile> base_;
  Digester digester_;
};

DigestingFileSystem::DigestingFileSystem(FileSystem& base)
    : base_(base), hasher_(std::make_unique<Hasher>()) {}
DigestingFileSystem::~DigestingFileSystem() = default;

FileDigests DigestingFileSystem::digests(const std::string& folder) const {
  const std::lock_guard lock(mutex_);
  FileDigests out;
  for (const auto& [path, digest] : by_path_)
    if (parent_folder(path) == folder) out[file_name(path)] = digest;
  return out;
}

Result<std::unique_ptr<WritableFile>> DigestingFileSystem::create(const std::string& path) {
  Result<std::unique_ptr<WritableFile>> file = base_.create(path);
  if (!file.ok()) return file;
  return std::unique_ptr<WritableFile>(new File(*this, path, std::move(file.value())));
}

Status DigestingFileSystem::rename(const std::string& from, const std::string& to) {
  Status status = base_.rename(from, to);
  const std::lock_guard lock(mutex_);
  if (auto moved = by_path_.extract(from); status.ok() && moved) by_path_[to] = std::move(moved.mapped());
  return status;
}

Status DigestingFileSystem::remove_all(const std::string& path) {
  Status status = base_.remove_all(path);
  const std::lock_guard lock(mutex_);
  by_path_.erase(path);
  return status;
}

}  // namespace lathe
