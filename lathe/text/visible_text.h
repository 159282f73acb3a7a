#pragma once
#include <string>
#include <string_view>

namespace lathe {

/// Text for a terminal.  Control characters other than tabs and newlines become \x1b, those beyond ASCII and
/// characters that reverse the order of a line \u009b, bytes that are not UTF-8 \xff.  JSON stays JSON.
/// Labels, texts and names come from others, and must not move the cursor, or set colours or the clipboard.
std::string visible_text(std::string_view text);

/// The same on one line: newlines and tabs as \n and \t.
std::string visible_line(std::string_view text);

}  // namespace lathe
