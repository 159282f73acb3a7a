#include "lathe/io/torch/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "lathe/core/error.h"

namespace lathe {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryHeader = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr size_t kLocalHeaderBytes = 30, kDirectoryHeaderBytes = 46, kEndBytes = 22, kEnd64Bytes = 56;
constexpr size_t kEnd64LocatorBytes = 20, kLongestComment = 65535;
constexpr uint16_t kExtra64 = 1;

/// Reads little-endian numbers; every access is checked.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  std::span<const std::byte> slice(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset)
      fail(ErrorCode::kInvalidData,
           "{}: the zip archive is damaged or cut short: needs {} bytes at {}, found {} in all", path_, size,
           offset, bytes_.size());
    return bytes_.subspan(offset, size);
  }

  template <typename T>
  T number(uint64_t offset) const {
    T value;
    std::memcpy(&value, slice(offset, sizeof(T)).data(), sizeof(T));
    return value;
  }

  uint64_t size() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  const std::string& path_;
};

struct Directory {
  uint64_t offset, bytes, entries;
};

Directory find_directory(const Reader& file, const std::string& path) {
  if (file.size() >= kEndBytes) {
    const uint64_t last = file.size() - kEndBytes;
    const uint64_t first = last > kLongestComment ? last - kLongestComment : 0;
    for (uint64_t at = last + 1; at-- > first;) {
      if (file.number<uint32_t>(at) != kEnd) continue;
      Directory out{file.number<uint32_t>(at + 16), file.number<uint32_t>(at + 12),
                    file.number<uint16_t>(at + 10)};
      const bool has_64 =
          at >= kEnd64LocatorBytes && file.number<uint32_t>(at - kEnd64LocatorBytes) == kEnd64Locator;
      if (!has_64) return out;
      const uint64_t end64 = file.number<uint64_t>(at - kEnd64LocatorBytes + 8);
      if (Reader(file.slice(end64, kEnd64Bytes), path).number<uint32_t>(0) != kEnd64)
        fail(ErrorCode::kInvalidData, "{}: the zip64 directory is damaged; fetch the file again", path);
      return {file.number<uint64_t>(end64 + 48), file.number<uint64_t>(end64 + 40),
              file.number<uint64_t>(end64 + 32)};
    }
  }
  fail(ErrorCode::kInvalidData,
       "{}: found no zip directory at its end: the file is cut short; fetch it again", path);
}

/// Fills in the numbers that did not fit 32 bits, in the order the format prescribes.
void read_extra_64(const Reader& extra, ZipArchive::Entry& entry) {
  constexpr uint32_t kElsewhere = 0xffffffffu;
  for (uint64_t at = 0; at + 4 <= extra.size();) {
    const uint16_t id = extra.number<uint16_t>(at), size = extra.number<uint16_t>(at + 2);
    at += 4;
    if (id == kExtra64) {
      uint64_t field = at;
      for (uint64_t* number : {&entry.bytes, &entry.packed_bytes, &entry.offset}) {
        if (*number != kElsewhere) continue;
        *number = extra.number<uint64_t>(field);
        field += sizeof(uint64_t);
      }
      return;
    }
    at += size;
  }
}

}  // namespace

ZipArchive::ZipArchive(std::span<const std::byte> file, const std::string& path, bool known)
    : file_(file), path_(path), known_(known) {
  const Reader whole(file, path_);
  const Directory found = find_directory(whole, path_);
  const Reader directory(whole.slice(found.offset, found.bytes), path_);
  uint64_t at = 0, sum = 0;
  for (uint64_t i = 0; i < found.entries; ++i) {
    if (directory.number<uint32_t>(at) != kDirectoryHeader)
      fail(ErrorCode::kInvalidData, "{}: entry {} of the zip directory is damaged; fetch the file again",
           path_, i);
    Entry entry;
    entry.encrypted = (directory.number<uint16_t>(at + 8) & 1) != 0;
    entry.method = directory.number<uint16_t>(at + 10);
    entry.crc = directory.number<uint32_t>(at + 16);
    entry.packed_bytes = directory.number<uint32_t>(at + 20);
    entry.bytes = directory.number<uint32_t>(at + 24);
    entry.offset = directory.number<uint32_t>(at + 42);
    const uint16_t name_bytes = directory.number<uint16_t>(at + 28),
                   extra_bytes = directory.number<uint16_t>(at + 30);
    const uint16_t comment_bytes = directory.number<uint16_t>(at + 32);
    at += kDirectoryHeaderBytes;
    const std::span<const std::byte> name = directory.slice(at, name_bytes);
    read_extra_64(Reader(directory.slice(at + name_bytes, extra_bytes), path_), entry);
    at += uint64_t{name_bytes} + extra_bytes + comment_bytes;
    // Of a hostile file many entries are the same bytes, each read anew.
    if (entry.packed_bytes > file.size() - sum)
      fail(ErrorCode::kInvalidData,
           "{}: the entries of the zip directory are larger than the file of {} bytes: they lie over each "
           "other, or "
           "the file is cut short; fetch it again",
           path_, file.size());
    sum += entry.packed_bytes;
    entries_[std::string(reinterpret_cast<const char*>(name.data()), name.size())] = entry;
  }
}

std::span<const std::byte> ZipArchive::read(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    fail(ErrorCode::kInvalidData, "{}: the archive has no entry \"{}\"; the file is damaged", path_, name);
  const Entry& entry = found->second;
  if (entry.encrypted || entry.method != 0)
    fail(ErrorCode::kUnsupported,
         "{}: entry \"{}\": found it {}, expected it stored, as torch.save does; unpack the file and save it "
         "again with "
         "torch.save",
         path_, name, entry.encrypted ? "encrypted" : "compressed");
  const Reader whole(file_, path_);
  if (entry.packed_bytes != entry.bytes || whole.number<uint32_t>(entry.offset) != kLocalHeader)
    fail(ErrorCode::kInvalidData, "{}: entry \"{}\": its zip header is damaged; fetch the file again", path_,
         name);
  // The local header's name and extra field may be longer than the directory's: torch aligns data with them.
  const std::span<const std::byte> header = whole.slice(entry.offset, kLocalHeaderBytes);
  const Reader local(header, path_);
  const uint64_t skip = kLocalHeaderBytes + local.number<uint16_t>(26) + local.number<uint16_t>(28);
  const std::span<const std::byte> data = whole.slice(entry.offset + skip, entry.bytes);
  if (known_) return data;
  uLong crc = crc32(0, nullptr, 0);
  for (size_t done = 0; done < data.size();) {
    const size_t n = std::min(data.size() - done, size_t{1} << 30);
    crc = crc32(crc, reinterpret_cast<const Bytef*>(data.data() + done), static_cast<uInt>(n));
    done += n;
  }
  if (crc != entry.crc)
    fail(ErrorCode::kInvalidData,
         "{}: entry \"{}\": found CRC {:08x}, expected {:08x}: the file is damaged (or was saved without "
         "CRCs); "
         "fetch it or "
         "save it again",
         path_, name, crc, entry.crc);
  return data;
}

}  // namespace lathe
