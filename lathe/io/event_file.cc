#include "lathe/io/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>

namespace lathe {
namespace {

constexpr std::array<uint32_t, 256> crc_table() {
  constexpr uint32_t kReversedPolynomial = 0x82f63b78;
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = table[i] >> 1 ^ (table[i] & 1 ? kReversedPolynomial : 0);
  }
  return table;
}

uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return std::rotr(crc, 15) + 0xa282ead8u;  // so that a CRC of bytes that hold CRCs is a good one, too
}

/// A message of protocol buffers: fields in ascending order; what is 0 or empty is left out by the caller.
class Message {
 public:
  Message& varint(int field, uint64_t value) {
    key(field, 0);
    return raw_varint(value), *this;
  }
  Message& real(int field, double value) { return fixed(field, 1, std::bit_cast<uint64_t>(value)); }
  Message& real(int field, float value) { return fixed(field, 5, std::bit_cast<uint32_t>(value)); }
  Message& bytes(int field, std::string_view value) {
    key(field, 2);
    raw_varint(value.size());
    text_ += value;
    return *this;
  }
  const std::string& str() const { return text_; }

 private:
  void key(int field, int wire_type) { raw_varint(static_cast<uint64_t>(field << 3 | wire_type)); }
  void raw_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  template <typename T>
  Message& fixed(int field, int wire_type, T bits) {
    key(field, wire_type);
    for (size_t i = 0; i < sizeof(T); ++i) text_ += static_cast<char>(bits >> (8 * i));
    return *this;
  }

  std::string text_;
};

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Event {wall_time = 1, step = 2, summary = 5 {value = 1}}
std::string event_of(const Message& value, int64_t step) {
  Message event;
  event.real(1, wall_time());
  if (step != 0) event.varint(2, static_cast<uint64_t>(step));
  return event.bytes(5, Message().bytes(1, value.str()).str()).str();
}

template <typename T>
std::string little_endian(T value) {
  std::string out;
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return ~crc;
}

std::string host_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') return "localhost";
  return host.data();
}

Result<EventFile> EventFile::create(FileSystem& fs, const std::string& folder) {
  if (Status made = fs.create_directories(folder); !made.ok()) return made;
  const std::string begin = join_path(
      folder,
      fmt::format("events.out.tfevents.{}.{}.{}.", static_cast<int64_t>(wall_time()), host_name(), getpid()));
  int number = 0;
  while (fs.exists(begin + std::to_string(number))) ++number;  // of this process, within this second
  const std::string path = begin + std::to_string(number);
  Result<std::unique_ptr<WritableFile>> file = fs.create(path);
  if (!file.ok()) return file.status();
  EventFile out(std::move(file.value()), path);
  const std::string first = Message().real(1, wall_time()).bytes(3, "brain.Event:2").str();
  if (Status status = out.add_record(first); !status.ok()) return status;
  return out;
}

Status EventFile::add_record(const std::string& event) {
  const std::string length = little_endian<uint64_t>(event.size());
  return file_->append(
      as_bytes(length + little_endian(masked_crc(length)) + event + little_endian(masked_crc(event))));
}

Status EventFile::add_scalar(const std::string& tag, double value, int64_t step) {
  return add_record(event_of(Message().bytes(1, tag).real(2, static_cast<float>(value)), step));
}

Status EventFile::add_text(const std::string& tag, const std::string& text, int64_t step) {
  constexpr uint64_t kString = 7;  // DT_STRING
  const Message shape = Message().bytes(2, Message().varint(1, 1).str());
  const Message tensor = Message().varint(1, kString).bytes(2, shape.str()).bytes(8, text);
  const Message metadata = Message().bytes(1, Message().bytes(1, "text").str());  // the plug-in's name
  // The tag's ending is that of torch's SummaryWriter.
  const Message value =
      Message().bytes(1, tag + "/text_summary").bytes(8, tensor.str()).bytes(9, metadata.str());
  return add_record(event_of(value, step));
}

}  // namespace lathe
