#include "lathe/core/log.h"

#include <map>

#include "lathe/core/error.h"

namespace lathe {

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "DEBUG";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kWarning:
      return "WARNING";
    case LogLevel::kError:
      return "ERROR";
    case LogLevel::kCritical:
      return "CRITICAL";
  }
  return "";
}

LogLevel log_level_from(const std::string& name) {
  static const std::map<std::string, LogLevel> levels = {
      {"detail", LogLevel::kDebug},    {"debug", LogLevel::kDebug}, {"info", LogLevel::kInfo},
      {"warning", LogLevel::kWarning}, {"error", LogLevel::kError}, {"critical", LogLevel::kCritical},
      {"passive", LogLevel::kInfo}};
  const auto found = levels.find(name);
  if (found == levels.end()) {
    fail(ErrorCode::kUsage,
         "--log_level: found '{}', expected debug, info, warning, error, critical or passive", name);
  }
  return found->second;
}

}  // namespace lathe
