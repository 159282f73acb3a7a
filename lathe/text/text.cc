#include "lathe/text/text.h"

#include <utf8proc.h>

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/text/unicode.h"

namespace lathe {
namespace {

struct Decoded {
  char32_t code_point;
  int bytes;  // 0: ill-formed
};

Decoded decode_one(std::string_view text, size_t at) {
  const int bytes = unicode::sequence_length(text.substr(at));
  if (bytes < 0) return {0xFFFD, 0};
  return {unicode::decode(text, &at), bytes};
}

size_t byte_of_code_point(std::string_view text, size_t index, size_t from = 0) {
  size_t at = from;
  for (; index > 0 && at < text.size(); --index) {
    do ++at;
    while (at < text.size() && (text[at] & 0xC0) == 0x80);
  }
  return at;
}

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

// Unicode's Cased and Case_Ignorable, by category: what the rule of the final sigma asks for.
bool is_cased(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL || kind == UTF8PROC_CATEGORY_LT;
}

bool is_case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2018 || c == 0x2019 || c == 0x2024 ||
             c == 0x2027;
  }
}

bool is_final_sigma(const std::vector<char32_t>& text, size_t at) {
  size_t before = at;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

}  // namespace

void check_utf8(std::string_view bytes, const std::string& origin, int64_t first_line) {
  const size_t bad = unicode::find_invalid(bytes);
  if (bad == std::string_view::npos) return;
  if (bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF"))
    fail(
        ErrorCode::kInvalidData,
        "{}: begins as UTF-16 text does; expected UTF-8 text: convert the file, e.g. with iconv -f utf-16 -t "
        "utf-8",
        origin);
  const auto line = first_line + std::count(bytes.begin(), bytes.begin() + static_cast<long>(bad), '\n');
  const size_t line_begin = bytes.substr(0, bad).rfind('\n') + 1;
  fail(ErrorCode::kInvalidData,
       "{}:{}: byte {} of the line is 0x{:02x}, no UTF-8; expected UTF-8 text: convert the file, e.g. with "
       "iconv "
       "-f latin1 -t utf-8",
       origin, line, bad - line_begin + 1, static_cast<unsigned>(static_cast<uint8_t>(bytes[bad])));
}

std::vector<char32_t> decode_utf8(std::string_view text) {
  std::vector<char32_t> out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Decoded one = decode_one(text, at);
    out.push_back(one.code_point);
    at += one.bytes == 0 ? 1 : one.bytes;
  }
  return out;
}

std::string_view slice_code_points(std::string_view text, size_t begin, size_t end) {
  if (end <= begin) return {};
  const size_t first = byte_of_code_point(text, begin);
  return text.substr(first, byte_of_code_point(text, end - begin, first) - first);
}

bool is_python_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::string_view lstrip(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Decoded one = decode_one(text, at);
    if (!is_python_space(one.code_point)) break;
    at += one.bytes;
  }
  return text.substr(at);
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Decoded one = decode_one(text, at);
    const size_t next = at + (one.bytes == 0 ? 1 : one.bytes);
    if (is_python_space(one.code_point)) {
      if (at > begin) words.push_back(text.substr(begin, at - begin));
      begin = next;
    }
    at = next;
  }
  if (text.size() > begin) words.push_back(text.substr(begin));
  return words;
}

std::vector<std::string> split_at_commas(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t comma; (comma = text.find(',')) != std::string_view::npos; text.remove_prefix(comma + 1))
    parts.emplace_back(text.substr(0, comma));
  parts.emplace_back(text);
  return parts;
}

std::string to_lower(std::string_view text) {
  const std::vector<char32_t> code_points = decode_utf8(text);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < code_points.size(); ++i) {
    const char32_t c = code_points[i];
    if (c < 0x80) {
      out.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
    } else if (c == 0x130) {  // the one letter whose lower case is two code points
      out += "i\xCC\x87";
    } else if (c == 0x3A3) {
      unicode::append_utf8(is_final_sigma(code_points, i) ? 0x3C2 : 0x3C3, &out);
    } else {
      unicode::append_utf8(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), &out);
    }
  }
  return out;
}

bool is_word_character(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  const auto kind = category(c);
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO) ||
         (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO);
}

}  // namespace lathe
