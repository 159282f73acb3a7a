#include "lathe/backends/group/hmac.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace lathe::group {
namespace {

std::string hex_of(std::string_view key, std::string_view message) {
  std::string text;
  for (const unsigned char byte : hmac_sha256(key, message)) text += fmt::format("{:02x}", byte);
  return text;
}

/// Test cases 1, 2, 6 and 7 of RFC 4231.
TEST(Hmac, GivesTheValuesOfTheStandard) {
  EXPECT_EQ(hex_of(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex_of("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex_of(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hex_of(std::string(131, '\xaa'),
                   "This is a test using a larger than block-size key and a larger than block-size data. The "
                   "key needs to be hashed before being used by the HMAC algorithm."),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Hmac, ComparesAllBytes) {
  const auto mac = hmac_sha256("key", "message");
  auto other = mac;
  EXPECT_TRUE(same_bytes(mac, other));
  other.back() ^= 1;
  EXPECT_FALSE(same_bytes(mac, other));
  EXPECT_FALSE(same_bytes(mac, std::span(mac).first(16)));
}

}  // namespace
}  // namespace lathe::group
