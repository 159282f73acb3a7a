#pragma once
#include <string>
#include <string_view>

namespace lathe {

// What Python's str does with a text; texts are well-formed UTF-8.

/// As `str.upper()`: full case mapping.
std::string to_upper(std::string_view text);
/// As `str.title()`: each run of letters begins with title case.
std::string to_title(std::string_view text);
/// As `str.capitalize()`: the first character in title case, the others in lower case.
std::string to_capitalized(std::string_view text);
/// As `repr(text)`: in quotes, with escapes for what does not print.
std::string python_quoted(std::string_view text);

/// As `str.isalpha()`, … of one character.  A digit is a decimal one, or super- or subscript.
bool is_python_alpha(char32_t c);
bool is_python_digit(char32_t c);
bool is_python_numeric(char32_t c);
bool is_python_upper(char32_t c);
bool is_python_lower(char32_t c);
bool is_python_printable(char32_t c);

}  // namespace lathe
