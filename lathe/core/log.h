#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace lathe {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kCritical };
/// "DEBUG", "INFO", ...
std::string_view name_of(LogLevel level);
/// A value of --log_level; "passive" is INFO, which is what Hugging Face's scripts make of it.  Errors:
/// kUsage.
LogLevel log_level_from(const std::string& name);

/// Where the library's messages go; it never prints itself.
using LogSink = std::function<void(LogLevel, const std::string& line)>;

}  // namespace lathe
