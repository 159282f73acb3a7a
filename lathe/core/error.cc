#include "lathe/core/error.h"

namespace lathe {
namespace {

std::string without_zero_bytes(const std::string& message) {
  std::string out;
  for (const char c : message) {
    if (c == '\0')
      out += "\\x00";
    else
      out += c;
  }
  return out;
}

}  // namespace

Error::Error(ErrorCode code, const std::string& message)
    : std::runtime_error(without_zero_bytes(message)), code_(code) {}

int exit_code(ErrorCode code) { return code == ErrorCode::kUsage ? 2 : 1; }

}  // namespace lathe
