#include "lathe/text/visible_text.h"

#include <fmt/format.h>

#include "lathe/text/unicode.h"

namespace lathe {
namespace {

/// DEL and U+0080 to U+009F, of which U+009B begins a command as ESC [ does; the embeddings, overrides and
/// isolates of bidirectional text, after which the rest of a line may be shown in another order.
bool is_hidden_command(uint32_t c) {
  return (c >= 0x7f && c <= 0x9f) || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

}  // namespace

std::string visible_text(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool is_utf8 = unicode::sequence_length(text.substr(at)) > 0;
    const uint32_t c = is_utf8 ? unicode::decode(text, &at) : byte;
    if (!is_utf8) ++at;  // a terminal that takes no UTF-8 may have a command at this number
    if (!is_utf8 || (c < 0x20 && c != '\n' && c != '\t'))
      out += fmt::format("\\x{:02x}", byte);
    else if (is_hidden_command(c))
      out += fmt::format("\\u{:04x}", c);  // in a text of JSON, where those above are escaped, it is the same
    else
      out += text.substr(begin, at - begin);
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
