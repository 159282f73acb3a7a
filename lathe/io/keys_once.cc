#include "lathe/io/keys_once.h"

namespace lathe {
namespace keys_once_detail {
namespace {

/// Reads on after a key that an object has twice, and keeps the place of what is refused.
class PlaceFinder : public Builder<nlohmann::json> {
 public:
  size_t at = 0;

  bool key(std::string& name) {
    Builder::key(name);
    return true;
  }
  template <typename Exception>
  bool parse_error(size_t end, const std::string& token, const Exception&) {
    at = end - token.size();
    return false;
  }
};

}  // namespace

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

}  // namespace keys_once_detail

size_t place_beyond_double(std::string_view text) {
  keys_once_detail::PlaceFinder finder;
  nlohmann::json::sax_parse(text.begin(), text.end(), &finder);
  return finder.at;
}

}  // namespace lathe
