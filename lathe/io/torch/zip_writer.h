#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lathe/io/file_system.h"

namespace lathe {

/// Writes a zip archive of stored entries to a sink, front to back, as torch.save lays it out: the data of
/// every entry begins at a multiple of 64 bytes (padding in an extra field "FB"), CRC and size follow
/// it, the directory has its zip64 form.  The first error sticks.
/// Source: PKWARE APPNOTE.TXT 6.3, sections 4.3 and 4.5; torch's caffe2/serialize/inline_container.cc.
class ZipWriter {
 public:
  explicit ZipWriter(Sink sink) : sink_(std::move(sink)) {}

  Status add(std::string_view name, std::span<const std::byte> content);
  /// The content is what `content` gives to the sink that it gets.  Errors: its own, too.
  Status add(std::string_view name, const Writer& content);
  /// Writes the directory.  Nothing may be added afterwards.
  Status finish();

 private:
  void put(std::span<const std::byte> bytes);

  Sink sink_;
  Status status_;
  uint64_t at_ = 0, entries_ = 0;
  std::string directory_;
};

}  // namespace lathe
