#include "lathe/io/base64.h"

#include <gtest/gtest.h>

#include "lathe/io/file_system.h"

namespace lathe {
namespace {

TEST(Base64, BothWays) {  // the examples of RFC 4648, section 10
  for (const auto& [text, coded] : {std::pair{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"fooba", "Zm9vYmE="},
                                    {"foobar", "Zm9vYmFy"}}) {
    EXPECT_EQ(to_base64(as_bytes(text)), coded);
    EXPECT_EQ(from_base64(coded), text);
  }
  EXPECT_EQ(to_base64(as_bytes("\xfb\xff")), "+/8=");
}

TEST(Base64, WhatIsNone) {
  EXPECT_EQ(from_base64("YW="), std::nullopt);
  EXPECT_EQ(from_base64("Y=Jj"), std::nullopt);
}

}  // namespace
}  // namespace lathe
