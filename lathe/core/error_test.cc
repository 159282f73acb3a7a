#include "lathe/core/error.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Error, AMessageDoesNotEndAtAZeroByte) {
  const std::string value("wh\0o\0", 5);
  try {
    fail(ErrorCode::kInvalidData, "found '{}', expected one of the labels", value);
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "found 'wh\\x00o\\x00', expected one of the labels");
  }
  EXPECT_STREQ(Error(ErrorCode::kIo, "plain").what(), "plain");
}

}  // namespace
}  // namespace lathe
