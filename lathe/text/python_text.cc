#include "lathe/text/python_text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "lathe/text/text.h"
#include "lathe/text/unicode.h"

namespace lathe {
namespace {

struct LongCase {
  char32_t letter;
  const char* upper;
  const char* title;
};
constexpr LongCase kLongCases[] = {
#include "lathe/text/python_case.inc"
};

const LongCase* long_case(char32_t c) {
  const auto* found = std::lower_bound(std::begin(kLongCases), std::end(kLongCases), c,
                                       [](const LongCase& a, char32_t b) { return a.letter < b; });
  return found != std::end(kLongCases) && found->letter == c ? found : nullptr;
}

utf8proc_category_t category_of(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool has_case(char32_t c) {
  return is_python_upper(c) || is_python_lower(c) || category_of(c) == UTF8PROC_CATEGORY_LT;
}

void append_upper(char32_t c, std::string* out) {
  if (const LongCase* special = long_case(c)) {
    *out += special->upper;
  } else {
    unicode::append_utf8(static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))), out);
  }
}

void append_title(char32_t c, std::string* out) {
  if (const LongCase* special = long_case(c)) {
    *out += special->title;
  } else {
    unicode::append_utf8(static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))), out);
  }
}

/// only_first: the text is one word, whatever stands in it.
std::string title_of(std::string_view text, bool only_first) {
  std::string out, whole;
  bool in_word = false;
  size_t lowered = 0;  // bytes of the lower case of what is before
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = unicode::decode(text, &at);
    const std::string lower = to_lower(text.substr(begin, at - begin));
    if (!in_word) {
      append_title(c, &out);
    } else if (c == 0x3A3) {
      // Both of its lower cases have two bytes; which it is hangs on the characters around it.
      if (whole.empty()) whole = to_lower(text);
      out += std::string_view(whole).substr(lowered, 2);
    } else {
      out += lower;
    }
    lowered += lower.size();
    in_word = has_case(c) || only_first;
  }
  return out;
}

}  // namespace

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) append_upper(unicode::decode(text, &at), &out);
  return out;
}

std::string to_title(std::string_view text) { return title_of(text, false); }
std::string to_capitalized(std::string_view text) { return title_of(text, true); }

std::string python_quoted(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const char32_t c = unicode::decode(text, &at);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\\' || c == static_cast<char32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(c);
    } else if (is_python_printable(c)) {
      unicode::append_utf8(c, &out);
    } else if (const auto value = static_cast<uint32_t>(c); c < 0x100) {
      out += fmt::format("\\x{:02x}", value);
    } else {
      out += c < 0x10000 ? fmt::format("\\u{:04x}", value) : fmt::format("\\U{:08x}", value);
    }
  }
  return out + quote;
}

bool is_python_alpha(char32_t c) {
  const auto kind = category_of(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_python_digit(char32_t c) {
  return category_of(c) == UTF8PROC_CATEGORY_ND || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089);
}

bool is_python_numeric(char32_t c) {
  const auto kind = category_of(c);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

bool is_python_upper(char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_LU; }
bool is_python_lower(char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_LL; }

bool is_python_printable(char32_t c) {
  if (c == ' ') return true;
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

}  // namespace lathe
