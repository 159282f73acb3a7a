#include "lathe/io/event_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <vector>

#include "lathe/core/test_folder.h"
#include "lathe/io/faulty_file_system_testing.h"

namespace lathe {
namespace {

/// The records of a file, lengths and CRCs checked.
std::vector<std::string> records_of(const std::string& content) {
  const auto number = [&](size_t at, size_t bytes) {
    uint64_t value = 0;
    std::memcpy(&value, content.data() + at, bytes);
    return value;
  };
  const auto masked = [](std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; };
  std::vector<std::string> out;
  for (size_t at = 0; at < content.size();) {
    const size_t length = number(at, 8);
    EXPECT_EQ(number(at + 8, 4), masked(content.substr(at, 8)));
    out.push_back(content.substr(at + 12, length));
    EXPECT_EQ(number(at + 12 + length, 4), masked(out.back()));
    at += 16 + length;
  }
  return out;
}

TEST(EventFile, Crc32cIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);            // the check value of the catalogue of CRCs
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720 B.4
}

TEST(EventFile, TwoOfOneSecondAreTwo) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  std::vector<EventFile> files;
  for (int i = 0; i < 3; ++i) files.push_back(EventFile::create(fs, folder.path()).value());
  EXPECT_EQ(fs.list(folder.path()).value().size(), 3u);
}

// The bytes after a record's time are those that torch.utils.tensorboard writes (tensorboard 2.21).
TEST(EventFile, RecordsAreThoseOfTensorboard) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  EventFile file = EventFile::create(fs, folder / "runs/a").value();
  EXPECT_NE(file.path().find("runs/a/events.out.tfevents."), std::string::npos);
  EXPECT_EQ(records_of(fs.read(file.path()).value()).size(), 1u);
  file.add_scalar("train/loss", 0.916585207, 2).check();
  file.add_text("args", "{}\n", 0).check();
  file.add_scalar("eval/loss", 0, 300).check();
  const auto records = records_of(fs.read(file.path()).value());
  ASSERT_EQ(records.size(), 4u);
  constexpr size_t kTime = 9;  // key and double
  for (const std::string& record : records) EXPECT_EQ(record[0], '\x09');
  EXPECT_EQ(records[0].substr(kTime),
            "\x1a\x0d"
            "brain.Event:2");
  EXPECT_EQ(records[1].substr(kTime), "\x10\x02*\x13\n\x11\n\ntrain/loss\x15T\xa5j?");
  EXPECT_EQ(records[2].substr(kTime),
            "*.\n,\n\x11"
            "args/text_summaryB\r\x08\x07\x12\x04\x12\x02\x08\x01"
            "B\x03{}\nJ\x08\n\x06\n\x04text");
  EXPECT_EQ(records[3].substr(kTime), std::string("\x10\xac\x02*\x12\n\x10\n\teval/loss\x15\0\0\0\0", 23));
}

TEST(EventFile, AFullDiskIsAStatus) {
  const TestFolder folder;
  FaultyFileSystem fs(real_file_system(), {.disk_bytes = 60});
  Result<EventFile> file = EventFile::create(fs, folder.path());
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE(file.value().add_scalar("train/loss", 1, 1).ok());
}

}  // namespace
}  // namespace lathe
