#pragma once
#include <string>
#include <vector>

#include "lathe/core/error_testing.h"

namespace lathe {

/// f throws an Error of this code whose message has all these parts.
template <typename F>
void expect_error(const F& f, ErrorCode code, const std::vector<std::string>& parts) {
  const std::string message = message_of(code, f);
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
}

}  // namespace lathe
