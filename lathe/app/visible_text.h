#pragma once
#include <string>
#include <string_view>

namespace lathe {

/// Text for a terminal: its control characters but tabs and newlines as \x1b, those of two bytes as \x9b.
/// Labels, texts and names come from others, and are not to move the cursor, set colours or the clipboard.
std::string visible_text(std::string_view text);

/// The same on one line: newlines and tabs as \n and \t.
std::string visible_line(std::string_view text);

}  // namespace lathe
