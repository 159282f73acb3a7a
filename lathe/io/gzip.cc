#include "lathe/io/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace lathe {
namespace {

class Inflater {
 public:
  Inflater(const std::string& packed, const std::string& path, uint64_t limit_bytes)
      : path_(path), limit_bytes_(unpacked_limit(packed.size(), limit_bytes)) {
    constexpr int kGzipOnly = 16;
    if (inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK)
      fail(ErrorCode::kInternal, "{}: zlib does not start", path_);
    next_ = reinterpret_cast<const Bytef*>(packed.data());
    left_ = packed.size();
    total_ = packed.size();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  std::string run() {
    do {  // a gzip file is one or more members
      read_member();
      skip_zeros();
    } while (left_ > 0);
    return std::move(out_);
  }

 private:
  void read_member() {
    inflateReset(&stream_);
    for (int result = Z_OK; result != Z_STREAM_END;) {
      const uInt given = static_cast<uInt>(std::min<size_t>(left_, std::numeric_limits<uInt>::max()));
      stream_.next_in = const_cast<Bytef*>(next_);  // zlib's interface; it does not write there
      stream_.avail_in = given;
      stream_.next_out = buffer_.data();
      stream_.avail_out = static_cast<uInt>(buffer_.size());
      result = inflate(&stream_, Z_NO_FLUSH);
      next_ += given - stream_.avail_in;
      left_ -= given - stream_.avail_in;
      const size_t made = buffer_.size() - stream_.avail_out;
      if (out_.size() + made > limit_bytes_)
        fail(ErrorCode::kInvalidData,
             "{}: {} bytes of gzip data unpack to more than the limit of {}; if they are meant, unpack them "
             "with gzip -d",
             path_, total_, limit_bytes_);
      out_.append(reinterpret_cast<const char*>(buffer_.data()), made);
      if (result == Z_BUF_ERROR || (result == Z_OK && left_ == 0 && stream_.avail_out > 0))
        fail(ErrorCode::kInvalidData, "{}: the gzip data is cut short at byte {}; fetch the file again",
             path_, total_);
      if (result != Z_OK && result != Z_STREAM_END)
        fail(ErrorCode::kInvalidData, "{}: the gzip data is damaged near byte {} ({}); fetch the file again",
             path_, total_ - left_, stream_.msg == nullptr ? "unknown form" : stream_.msg);
    }
  }

  /// Tapes and some tools pad with zeros.
  void skip_zeros() {
    while (left_ > 0 && *next_ == 0) {
      ++next_;
      --left_;
    }
  }

  const std::string& path_;
  uint64_t limit_bytes_;                                             ///< of what comes out
  std::vector<Bytef> buffer_ = std::vector<Bytef>(size_t{1} << 18);  // of all members: they may be tiny
  z_stream stream_{};
  const Bytef* next_ = nullptr;
  size_t left_ = 0;
  size_t total_ = 0;
  std::string out_;
};

}  // namespace

uint64_t unpacked_limit(uint64_t packed_bytes, uint64_t limit_bytes) {
  return std::min(limit_bytes, std::max(kSmallFileBytes, packed_bytes * kMostUnpackedTimes));
}

std::string read_text(FileSystem& fs, const std::string& path, uint64_t limit_bytes) {
  std::string content = fs.read(path, limit_bytes).value();
  return content.starts_with("\x1f\x8b") ? Inflater(content, path, limit_bytes).run() : content;
}

}  // namespace lathe
