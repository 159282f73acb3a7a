#pragma once
#include <string_view>

#include "lathe/tokenizers/templates/value.h"

namespace lathe::templates {

/// A method of Python's str, or null.
Function find_text_method(std::string_view name);

enum class Side { kLeft, kRight, kBoth };
/// text without what stands at its sides: white space, or where `characters` is not null, those.
std::string_view stripped(std::string_view text, const std::string* characters, Side side);
/// Every occurrence (at most count, if count >= 0) of what is replaced.
std::string replaced(std::string_view text, std::string_view what, std::string_view by, int64_t count,
                     Meter& meter);
/// Lines as str.splitlines has them.
std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends);

}  // namespace lathe::templates
