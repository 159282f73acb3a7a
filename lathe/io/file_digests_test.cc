#include "lathe/io/file_digests.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lathe/core/test_folder.h"
#include "lathe/io/digest.h"
#include "lathe/io/faulty_file_system_testing.h"

namespace lathe {
namespace {

class FileDigestsTest : public testing::Test {
 protected:
  /// Bytes of a file beyond one chunk, none of which is like its neighbour.
  static std::string long_text() {
    std::string text(FileDigest::kChunk + 1000, '\0');
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 2654435761u >> 13);
    return text;
  }

  void write(const std::string& name, std::string_view text, size_t part = size_t{1} << 20) {
    fs_.write_atomic(folder_ / name,
                     [&](const Sink& sink) {
                       Status status;
                       for (size_t at = 0; at < text.size() && status.ok(); at += part)
                         status = sink(as_bytes(text.substr(at, part)));
                       return status;
                     })
        .check();
  }

  /// The messages without the folder.
  std::vector<std::string> faults() {
    std::vector<std::string> out;
    for (const FileFault& fault : faults_of(real_file_system(), folder_.path(), digests_)) {
      EXPECT_TRUE(fault.status.message().starts_with(folder_ / fault.name)) << fault.status.message();
      out.push_back(fault.status.message().substr(folder_.path().size() + 1));
    }
    return out;
  }

  void flip(const std::string& name, size_t at, char bit) {
    std::string text = real_file_system().read(folder_ / name, UINT64_MAX).value();
    text.at(at) = static_cast<char>(text.at(at) ^ bit);
    real_file_system().write_atomic(folder_ / name, text).check();
  }

  TestFolder folder_;
  FaultyFileSystem unsynced_{real_file_system(), {}};  // spares the disk
  DigestingFileSystem fs_{unsynced_};
  FileDigests digests_;
};

TEST_F(FileDigestsTest, AreThoseOfTheBytesOnAThreadOfItsOwn) {
  const std::string text = long_text();
  write("long", text);
  write("of small parts", std::string_view(text).substr(0, 100'000), 7);
  write("empty", "");
  digests_ = fs_.digests(folder_.path());
  ASSERT_EQ(digests_.size(), 3u);
  const auto bytes = as_bytes(text);
  EXPECT_EQ(digests_["long"], (FileDigest{text.size(),
                                          {sha256_hex(bytes.first(FileDigest::kChunk)),
                                           sha256_hex(bytes.subspan(FileDigest::kChunk))}}));
  EXPECT_EQ(digests_["of small parts"], (FileDigest{100'000, {sha256_hex(bytes.first(100'000))}}));
  EXPECT_EQ(digests_["empty"], FileDigest());
  EXPECT_EQ(faults(), std::vector<std::string>());
  EXPECT_EQ(file_digests_from(nlohmann::json::parse(to_json(digests_).dump()), "here"), digests_);
}

TEST_F(FileDigestsTest, TellEveryChangeByTheNameOfTheFile) {
  write("a", "four");
  write("b", long_text());
  write("c", "");
  digests_ = fs_.digests(folder_.path());
  for (const size_t at : {size_t{0}, size_t{FileDigest::kChunk - 1}, size_t{FileDigest::kChunk + 999}}) {
    flip("b", at, 0x10);
    EXPECT_EQ(faults(), std::vector<std::string>{"b: found other bytes than were written"}) << at;
    flip("b", at, 0x10);
  }
  EXPECT_EQ(faults(), std::vector<std::string>());
  std::filesystem::resize_file(folder_ / "a", 5);
  std::filesystem::resize_file(folder_ / "b", FileDigest::kChunk);
  std::filesystem::resize_file(folder_ / "c", 1);
  EXPECT_EQ(faults(),
            (std::vector<std::string>{"a: found 5 bytes, expected the 4 that were written",
                                      "b: found 67108864 bytes, expected the 67109864 that were written",
                                      "c: found 1 bytes, expected the 0 that were written"}));
  std::filesystem::remove(folder_ / "a");
  EXPECT_TRUE(faults().at(0).starts_with("a: cannot open: No such file")) << faults().at(0);
}

TEST_F(FileDigestsTest, FollowAFileThatIsNamedAnewOrRemoved) {
  write("a", "first");
  write("b", "second");
  fs_.rename(folder_ / "a", folder_ / "c").check();
  fs_.remove_all(folder_ / "b").check();
  write("c", "third");
  EXPECT_EQ(fs_.digests(folder_.path()), (FileDigests{{"c", {5, {sha256_hex(as_bytes("third"))}}}}));
}

TEST_F(FileDigestsTest, AFaultOfTheDiskIsTold) {
  FaultyFileSystem full(real_file_system(), {.disk_bytes = 1 << 20});
  DigestingFileSystem fs(full);
  const std::string text = long_text();
  const Status status = fs.write(folder_ / "a", [&](const Sink& sink) { return sink(as_bytes(text)); });
  EXPECT_EQ(status.code(), ErrorCode::kIo);
}

TEST_F(FileDigestsTest, WhatIsNoDigestIsRefused) {
  for (const char* text :
       {"1", R"({"a":1})", R"({"a":{"bytes":-1,"sha256":[]}})", R"({"a":{"bytes":1,"sha256":[]}})",
        R"({"a":{"bytes":1,"sha256":["00"]}})", R"({"a/b":{"bytes":0,"sha256":[]}})",
        R"({"a":{"bytes":4611686018427387904,"sha256":["00"]}})"})
    try {
      file_digests_from(nlohmann::json::parse(text), "here");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
      EXPECT_TRUE(std::string(error.what()).starts_with("here: ")) << error.what();
    }
}

}  // namespace
}  // namespace lathe
