#include "lathe/io/keys_once.h"

namespace lathe::keys_once_detail {

size_t place_of_bracket(std::string_view text, size_t bracket) {
  bool in_string = false;
  for (size_t at = 0;; ++at) {
    const char c = text[at];
    if (in_string && c == '\\') {
      ++at;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '{' || c == '[') && bracket-- == 0) {
      return at;
    }
  }
}

}  // namespace lathe::keys_once_detail
