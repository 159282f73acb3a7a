#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

/// Errors: kInvalidData "origin:line: byte …" where the text of a file is not well-formed UTF-8; of UTF-16
/// that begins with its mark it says so.  first_line: the number of the first of these lines.
void check_utf8(std::string_view bytes, const std::string& origin, int64_t first_line = 1);

/// The code points of a text, U+FFFD for every byte that is no part of well-formed UTF-8.
std::vector<char32_t> decode_utf8(std::string_view text);

/// The code points [begin, end) of well-formed UTF-8; an end beyond the text is the text's end.
std::string_view slice_code_points(std::string_view text, size_t begin, size_t end);

/// White space as Python's `str.isspace`.
bool is_python_space(char32_t code_point);
/// As Python's `str.lstrip()`.
std::string_view lstrip(std::string_view text);
/// Words between white space, as Python's `str.split()`.
std::vector<std::string_view> split_words(std::string_view text);
/// "a, b" as "a" and " b"; an empty text is one empty part.
std::vector<std::string> split_at_commas(std::string_view text);
/// As Python's `str.lower()`: full case mapping, final sigma included.
std::string to_lower(std::string_view text);
/// A character of `\w` in Python's `re`: a letter, a number or the underscore.
bool is_word_character(char32_t code_point);

}  // namespace lathe
