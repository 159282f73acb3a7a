#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace lathe {

/// A zip archive in memory (also zip64) whose entries are stored, not compressed, as torch.save writes it.
/// Does not own the bytes.  Source: PKWARE APPNOTE.TXT 6.3, sections 4.3 and 4.5.
class ZipArchive {
 public:
  struct Entry {
    uint64_t offset = 0;  ///< of the local header
    uint64_t packed_bytes = 0;
    uint64_t bytes = 0;
    uint32_t crc = 0;
    uint16_t method = 0;
    bool encrypted = false;
  };

  /// Reads the directory.  `path` is for messages; known: the bytes were checked.  Throws kInvalidData where
  /// it is damaged.
  ZipArchive(std::span<const std::byte> file, const std::string& path, bool known = false);

  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  /// The bytes of an entry; checks its CRC unless all bytes are known.  Throws kInvalidData if there is none
  /// or it is damaged, kUnsupported if it is compressed or encrypted.
  std::span<const std::byte> read(std::string_view name) const;

 private:
  std::span<const std::byte> file_;
  std::string path_;
  bool known_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace lathe
