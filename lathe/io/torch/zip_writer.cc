#include "lathe/io/torch/zip_writer.h"

#include <zlib.h>

#include <algorithm>

namespace lathe {
namespace {

constexpr uint64_t kAlignment = 64, kHeaderBytes = 30, kExtraHeaderBytes = 4;
constexpr uint64_t kElsewhere = 0xffffffff;  // the number stands in the zip64 field
constexpr uint16_t kFlags = 0x0808;          // CRC and size after the data; the name is UTF-8
constexpr uint16_t kVersion64 = 45;

/// Little-endian numbers, one after the other.
class Record {
 public:
  template <typename T>
  Record& number(T value) {
    for (size_t i = 0; i < sizeof(T); ++i)
      text_ += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
    return *this;
  }
  Record& text(std::string_view value) {
    text_ += value;
    return *this;
  }
  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

/// CRC of what had `before` and goes on with `content`.
uint32_t crc_of(uint32_t before, std::span<const std::byte> content) {
  constexpr size_t kPart = size_t{1} << 30;  // zlib counts in 32 bits
  uLong crc = before;
  for (size_t done = 0; done < content.size(); done += kPart)
    crc = crc32(crc, reinterpret_cast<const Bytef*>(content.data() + done),
                static_cast<uInt>(std::min(content.size() - done, kPart)));
  return static_cast<uint32_t>(crc);
}

std::string local_header(std::string_view name, uint64_t at) {
  const uint64_t padding = kAlignment - (at + kHeaderBytes + name.size() + kExtraHeaderBytes) % kAlignment;
  Record out;
  out.number<uint32_t>(0x04034b50).number<uint16_t>(0).number(kFlags).number<uint16_t>(0);
  out.number<uint32_t>(0).number<uint32_t>(0).number<uint32_t>(0).number<uint32_t>(0);  // time, CRC, sizes
  out.number(static_cast<uint16_t>(name.size())).number(static_cast<uint16_t>(kExtraHeaderBytes + padding));
  out.text(name).text("FB").number(static_cast<uint16_t>(padding)).text(std::string(padding, 'Z'));
  return out.str();
}

std::string descriptor(uint32_t crc, uint64_t bytes) {
  Record out;
  out.number<uint32_t>(0x08074b50).number(crc);
  if (bytes >= kElsewhere) return out.number(bytes).number(bytes).str();
  return out.number(static_cast<uint32_t>(bytes)).number(static_cast<uint32_t>(bytes)).str();
}

std::string directory_entry(std::string_view name, uint64_t at, uint32_t crc, uint64_t bytes) {
  Record wide;  // only what does not fit 32 bits, in the order of the format
  if (bytes >= kElsewhere) wide.number(bytes).number(bytes);
  if (at >= kElsewhere) wide.number(at);
  Record extra;
  if (!wide.str().empty())
    extra.number<uint16_t>(1).number(static_cast<uint16_t>(wide.str().size())).text(wide.str());
  const auto narrow = [](uint64_t value) { return static_cast<uint32_t>(std::min(value, kElsewhere)); };
  Record out;
  out.number<uint32_t>(0x02014b50).number<uint16_t>(0).number(extra.str().empty() ? uint16_t{0} : kVersion64);
  out.number(kFlags).number<uint16_t>(0).number<uint32_t>(0).number(crc);
  out.number(narrow(bytes)).number(narrow(bytes));
  out.number(static_cast<uint16_t>(name.size())).number(static_cast<uint16_t>(extra.str().size()));
  out.number<uint16_t>(0).number<uint16_t>(0).number<uint16_t>(0).number<uint32_t>(0).number(narrow(at));
  return out.text(name).text(extra.str()).str();
}

}  // namespace

void ZipWriter::put(std::span<const std::byte> bytes) {
  if (status_.ok()) status_ = sink_(bytes);
  at_ += bytes.size();
}

Status ZipWriter::add(std::string_view name, std::span<const std::byte> content) {
  return add(name, [&](const Sink& sink) { return sink(content); });
}

Status ZipWriter::add(std::string_view name, const Writer& content) {
  const uint64_t header_at = at_;
  put(as_bytes(local_header(name, at_)));
  const uint64_t content_at = at_;
  uint32_t crc = 0;
  const Status status = content([&](std::span<const std::byte> part) {
    crc = crc_of(crc, part);
    put(part);
    return status_;
  });
  if (status_.ok()) status_ = status;
  const uint64_t bytes = at_ - content_at;
  put(as_bytes(descriptor(crc, bytes)));
  directory_ += directory_entry(name, header_at, crc, bytes);
  ++entries_;
  return status_;
}

Status ZipWriter::finish() {
  const uint64_t directory_at = at_, directory_bytes = directory_.size();
  put(as_bytes(directory_));
  constexpr uint64_t kRestOfEnd64 = 44;
  Record end;
  end.number<uint32_t>(0x06064b50).number(kRestOfEnd64).number(kVersion64).number(kVersion64);
  end.number<uint32_t>(0).number<uint32_t>(0).number(entries_).number(entries_);
  end.number(directory_bytes).number(directory_at);
  end.number<uint32_t>(0x07064b50).number<uint32_t>(0).number(at_).number<uint32_t>(1);
  const auto count = static_cast<uint16_t>(std::min<uint64_t>(entries_, 0xffff));
  end.number<uint32_t>(0x06054b50).number<uint32_t>(0).number(count).number(count);
  end.number(static_cast<uint32_t>(std::min(directory_bytes, kElsewhere)));
  end.number(static_cast<uint32_t>(std::min(directory_at, kElsewhere))).number<uint16_t>(0);
  put(as_bytes(end.str()));
  return status_;
}

}  // namespace lathe
