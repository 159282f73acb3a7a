#pragma once
#include <string>
#include <string_view>

namespace lathe {

/// Text for a terminal: its control characters but tabs and newlines as \x1b, those beyond ASCII and what
/// turns the order of a line around as \u009b, bytes that are no UTF-8 as \xff.  JSON stays JSON.
/// Labels, texts and names come from others, and are not to move the cursor, set colours or the clipboard.
std::string visible_text(std::string_view text);

/// The same on one line: newlines and tabs as \n and \t.
std::string visible_line(std::string_view text);

}  // namespace lathe
