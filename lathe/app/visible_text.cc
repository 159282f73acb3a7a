#include "lathe/app/visible_text.h"

#include <fmt/format.h>

namespace lathe {
namespace {

constexpr unsigned char kFirst = 0x20, kDelete = 0x7f, kFirstOfTwo = 0xc2, kSecond = 0x80, kBehindLast = 0xa0;

}  // namespace

std::string visible_text(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : kBehindLast;
    if ((c < kFirst && c != '\n' && c != '\t') || c == kDelete)
      out += fmt::format("\\x{:02x}", c);
    else if (c == kFirstOfTwo && kSecond <= next &&
             next < kBehindLast)  // U+0080 to U+009F: 0xc2 and the same number
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
    else
      out += text[i];
  }
  return out;
}

std::string visible_line(std::string_view text) {
  std::string out;
  for (const char c : visible_text(text)) {
    if (c == '\n' || c == '\t')
      out += c == '\n' ? "\\n" : "\\t";
    else
      out += c;
  }
  return out;
}

}  // namespace lathe
