#include "lathe/io/digest.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

// The values of FIPS 180-4's examples and of `git hash-object`.
TEST(Digest, Sha256OfKnownTexts) {
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(as_bytes("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, GitNamesBlobsByTheirSizeAndBytes) {
  EXPECT_EQ(git_blob_hex({}), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_EQ(git_blob_hex(as_bytes("hello\n")), "ce013625030ba8dba906f756967f9e9ca394464a");
}

}  // namespace
}  // namespace lathe
