#pragma once
#include <gtest/gtest.h>

#include <string>

#include "lathe/core/error.h"

namespace lathe {

/// The message of the Error that f throws; "" if it throws none.  Checks the code.
template <typename F>
std::string message_of(ErrorCode code, F&& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error thrown";
  return "";
}

}  // namespace lathe
