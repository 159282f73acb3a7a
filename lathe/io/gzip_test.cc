#include "lathe/io/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "lathe/core/test_folder.h"
#include "lathe/io/testdata.h"

namespace lathe {
namespace {

std::string packed(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

class Gzip : public testing::Test {
 protected:
  std::string read(const std::string& content, uint64_t limit = 1 << 30) {
    std::ofstream(folder_ / "f.gz", std::ios::binary) << content;
    return read_text(real_file_system(), folder_ / "f.gz", limit);
  }
  std::string error(const std::string& content, uint64_t limit = 1 << 30) {
    return error_of([&] { read(content, limit); }, ErrorCode::kInvalidData);
  }
  TestFolder folder_;
  std::string text_ = std::string(1000000, 'a') + "\nend";
};

TEST_F(Gzip, PlainAndPackedGiveTheSameText) {
  EXPECT_EQ(read(text_), text_);
  EXPECT_EQ(read(packed(text_)), text_);
  EXPECT_EQ(read(packed("")), "");
  EXPECT_EQ(read(""), "");
}

TEST_F(Gzip, MembersAreJoinedAndZeroPaddingIsSkipped) {
  EXPECT_EQ(read(packed("one ") + packed("two") + std::string(5, '\0')), "one two");
}

TEST_F(Gzip, EveryTruncationIsAnError) {
  const std::string whole = packed("some text that is long enough to be cut anywhere");
  for (size_t n = 2; n < whole.size(); ++n)
    EXPECT_NE(error(whole.substr(0, n)).find("cut short"), std::string::npos) << n;
  EXPECT_NE(error(packed(text_).substr(0, 900)).find("f.gz: the gzip data is cut short at byte 900"),
            std::string::npos);
}

TEST_F(Gzip, DamageAndRubbishBehindAreErrors) {
  std::string bad = packed(text_);
  bad[bad.size() - 6] ^= 1;  // CRC
  EXPECT_NE(error(bad).find("damaged near byte"), std::string::npos);
  EXPECT_NE(error(packed(text_) + "rubbish").find("damaged"), std::string::npos);
}

TEST_F(Gzip, ABombEndsLongBeforeTheLimitOfItsReader) {
  const std::string bomb = packed(std::string(size_t{80} << 20, 'a'));
  ASSERT_LT(bomb.size(), 100'000u);
  EXPECT_NE(error(bomb, kDataFileBytes).find("bytes of gzip data unpack to more than the limit of 67108864"),
            std::string::npos);
  std::string many;  // members, each harmless
  for (int i = 0; i < 80; ++i) many += packed(std::string(size_t{1} << 20, 'a'));
  EXPECT_NE(error(many, kDataFileBytes).find("gzip -d"), std::string::npos);
}

TEST_F(Gzip, ManyTinyMembersTakeNoTime) {
  const std::string one = packed("x");
  std::string many;
  for (int i = 0; i < 100'000; ++i) many += one;
  EXPECT_EQ(read(many).size(), 100'000u);
}

TEST_F(Gzip, TheLimitHoldsForBoth) {
  EXPECT_NE(error(packed(text_), 999999).find("more than the limit of 999999"), std::string::npos);
  EXPECT_NE(error(text_, 999999), "");
  EXPECT_EQ(read(packed(text_), text_.size()), text_);
}

}  // namespace
}  // namespace lathe
