#include "lathe/tokenizers/templates/text_methods.h"

#include <algorithm>

#include "lathe/text/python_text.h"
#include "lathe/text/text.h"
#include "lathe/text/unicode.h"
#include "lathe/tokenizers/templates/library.h"
#include "lathe/tokenizers/templates/machine.h"

namespace lathe::templates {
namespace of_text_methods {
namespace {

const Text& text_in(Machine& m, const Value& self) {
  const Text& text = *as_text(self);
  m.meter().charge_text(text.bytes.size());
  return text;
}

template <Side side>
Value strip(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("strip", arguments, {"chars"});
  const Text& text = text_in(m, self);
  const bool white = args[0] == nullptr || is_none(*args[0]);
  const std::string characters = args.text(0, "");
  return m.text(std::string(stripped(text.bytes, white ? nullptr : &characters, side)), text.safe);
}

template <std::string (*change)(std::string_view)>
Value changed(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("a method that changes letters", arguments, {});
  const Text& text = text_in(m, self);
  return m.text(change(text.bytes), text.safe);
}

Values texts(Machine& m, const std::vector<std::string_view>& parts, bool safe) {
  Values out;
  for (const std::string_view part : parts) out.push_back(m.text(std::string(part), safe));
  return out;
}

/// Words between white space; after `count` splits (all if it is negative) the rest stays whole.
std::vector<std::string_view> words(std::string_view text, int64_t count, bool right) {
  if (count < 0) return split_words(text);
  std::vector<std::string_view> out;
  const Side side = right ? Side::kRight : Side::kLeft;
  for (text = stripped(text, nullptr, side); !text.empty(); text = stripped(text, nullptr, side)) {
    if (count-- == 0) {
      out.push_back(text);
      break;
    }
    size_t at = right ? text.size() : 0, next = at;
    while (right ? next > 0 : next < text.size()) {
      const char32_t c = right ? unicode::decode_back(text, &next) : unicode::decode(text, &next);
      if (is_python_space(c)) break;
      at = next;
    }
    out.push_back(right ? text.substr(at) : text.substr(0, at));
    text = right ? text.substr(0, at) : text.substr(at);
  }
  if (right) std::reverse(out.begin(), out.end());
  return out;
}

template <bool right>
Value split(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("split", arguments, {"sep", "maxsplit"});
  const Text& text = text_in(m, self);
  int64_t count = args.integer(1, -1);
  if (args[0] == nullptr || is_none(*args[0]))
    return m.list(texts(m, words(text.bytes, count, right), text.safe));
  const std::string separator = args.text(0, "");
  if (separator.empty()) fault("split: found an empty text to split at");
  std::vector<std::string_view> parts;
  std::string_view rest = text.bytes;
  for (; count != 0; --count) {
    const size_t at = right ? rfind_text(rest, separator, m.meter()) : find_text(rest, separator);
    if (at == std::string_view::npos) break;
    m.meter().charge(4);
    parts.push_back(right ? rest.substr(at + separator.size()) : rest.substr(0, at));
    rest = right ? rest.substr(0, at) : rest.substr(at + separator.size());
  }
  parts.push_back(rest);
  if (right) std::reverse(parts.begin(), parts.end());
  return m.list(texts(m, parts, text.safe));
}

Value split_lines(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("splitlines", arguments, {"keepends"});
  const Text& text = text_in(m, self);
  return m.list(texts(m, lines_of(text.bytes, args.flag(0, false)), text.safe));
}

template <bool right>
Value partition(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("partition", arguments, {"sep"}, 1);
  const Text& text = text_in(m, self);
  const std::string_view whole = text.bytes;
  const std::string separator = args.text(0, "");
  if (separator.empty()) fault("partition: found an empty text to split at");
  const size_t at = right ? rfind_text(whole, separator, m.meter()) : find_text(whole, separator);
  std::vector<std::string_view> parts = {whole.substr(0, at), separator};
  if (at != std::string_view::npos) {
    parts.push_back(whole.substr(at + separator.size()));
  } else {
    parts =
        right ? std::vector<std::string_view>{"", "", whole} : std::vector<std::string_view>{whole, "", ""};
  }
  return m.list(texts(m, parts, text.safe), List::Kind::kTuple);
}

/// text[start:end] as the methods that search have it, and the code points before it; nothing if start is
/// beyond the end.
struct Part {
  bool there;
  std::string_view text;
  int64_t before;
};

Part part_of(Machine& m, const Bound& args, std::string_view text) {
  if (args[1] == nullptr && args[2] == nullptr) return {true, text, 0};
  const auto n = static_cast<int64_t>(unicode::length(text));
  m.meter().charge_text(text.size());
  const auto place = [&](int64_t at) { return std::max<int64_t>(at < 0 ? at + n : at, 0); };
  const int64_t begin = place(args.integer(1, 0)), end = std::min(place(args.integer(2, n)), n);
  if (begin > end) return {false, {}, 0};
  return {true, slice_code_points(text, static_cast<size_t>(begin), static_cast<size_t>(end)), begin};
}

template <bool (*matches)(std::string_view, std::string_view)>
Value begins_or_ends(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("startswith or endswith", arguments, {"text", "start", "end"}, 1);
  const Part part = part_of(m, args, text_in(m, self).bytes);
  const List* list = as_list(*args[0]);
  if (list == nullptr || list->kind != List::Kind::kTuple)
    return matches(part.text, args.text(0, "")) && part.there;
  for (const Value& v : list->items) {
    m.meter().charge();
    if (matches(part.text, need_text("startswith or endswith", v).bytes) && part.there) return true;
  }
  return false;
}

bool begins(std::string_view text, std::string_view with) { return text.starts_with(with); }
bool ends(std::string_view text, std::string_view with) { return text.ends_with(with); }

template <bool right, bool needed>
Value find(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("find or index", arguments, {"sub", "start", "end"}, 1);
  const Part part = part_of(m, args, text_in(m, self).bytes);
  const std::string what = need_text("find or index", *args[0]).bytes;
  const size_t at = right ? rfind_text(part.text, what, m.meter()) : find_text(part.text, what);
  if (at != std::string_view::npos && part.there)
    return part.before + static_cast<int64_t>(unicode::length(part.text.substr(0, at)));
  if (needed) fault("index: the text has no '{}'", what);
  return int64_t{-1};
}

Value count(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("count", arguments, {"sub", "start", "end"}, 1);
  const Part part = part_of(m, args, text_in(m, self).bytes);
  const std::string what = need_text("count", *args[0]).bytes;
  if (!part.there) return int64_t{0};
  if (what.empty()) return static_cast<int64_t>(unicode::length(part.text)) + 1;
  int64_t out = 0;
  for (size_t at = find_text(part.text, what); at != std::string_view::npos;
       at = find_text(part.text, what, at + what.size()))
    ++out;
  return out;
}

Value replace(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("replace", arguments, {"old", "new", "count"}, 2);
  const Text& text = text_in(m, self);
  const std::string &what = need_text("replace", *args[0]).bytes, &by = need_text("replace", *args[1]).bytes;
  return m.text(replaced(text.bytes, what, by, args.integer(2, -1), m.meter()), text.safe);
}

Value join(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("join", arguments, {"items"}, 1);
  const Text& text = text_in(m, self);
  std::string out;
  bool first = true;
  for (const Value& v : iterate(*args[0], m.meter())) {
    if (!first) out += text.bytes;
    first = false;
    const Text& item = need_text("join", v);
    m.meter().charge_text(item.bytes.size() + text.bytes.size());
    out += item.bytes;
    m.meter().check_size(out.size());
  }
  return m.text(std::move(out), text.safe);
}

template <bool front>
Value without(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("removeprefix or removesuffix", arguments, {"text"}, 1);
  const Text& text = text_in(m, self);
  std::string_view out = text.bytes;
  const std::string what = args.text(0, "");
  if (front && out.starts_with(what)) out.remove_prefix(what.size());
  if (!front && out.ends_with(what)) out.remove_suffix(what.size());
  return m.text(std::string(out), text.safe);
}

template <Side side>
Value padded(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("ljust, rjust or center", arguments, {"width", "fillchar"}, 1);
  const Text& text = text_in(m, self);
  const std::string fill = args.text(1, " ");
  if (unicode::length(fill) != 1) fault("ljust, rjust or center: expected one character to fill with");
  const int64_t width = args.integer(0, 0),
                missing = width - static_cast<int64_t>(unicode::length(text.bytes));
  if (missing <= 0) return self;
  m.meter().check_size(static_cast<size_t>(missing), fill.size());
  // Python puts the odd one of center to the left where the width is odd.
  const int64_t left = side == Side::kLeft    ? 0
                       : side == Side::kRight ? missing
                                              : missing / 2 + (missing & width & 1);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += text.bytes;
  for (int64_t i = left; i < missing; ++i) out += fill;
  return m.text(std::move(out), text.safe);
}

Value zero_filled(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("zfill", arguments, {"width"}, 1);
  const Text& text = text_in(m, self);
  const int64_t missing = args.integer(0, 0) - static_cast<int64_t>(unicode::length(text.bytes));
  if (missing <= 0) return self;
  m.meter().check_size(static_cast<size_t>(missing));
  const size_t sign = text.bytes.starts_with('+') || text.bytes.starts_with('-') ? 1 : 0;
  return m.text(
      text.bytes.substr(0, sign) + std::string(static_cast<size_t>(missing), '0') + text.bytes.substr(sign),
      text.safe);
}

template <bool (*holds)(char32_t)>
Value all_of(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("a method that looks at characters", arguments, {});
  const std::string& text = text_in(m, self).bytes;
  m.meter().charge(text.size() / 4);
  for (size_t at = 0; at < text.size();)
    if (!holds(unicode::decode(text, &at))) return false;
  return !text.empty();
}

bool is_letter_or_number(char32_t c) { return is_python_alpha(c) || is_python_numeric(c); }

template <bool upper>
Value has_case(Machine& m, const Value& self, const Arguments&) {
  return find_test(upper ? "upper" : "lower")(m, self, Arguments{});
}

constexpr NamedFunction kTextMethods[] = {
    {"strip", strip<Side::kBoth>},
    {"lstrip", strip<Side::kLeft>},
    {"rstrip", strip<Side::kRight>},
    {"upper", changed<to_upper>},
    {"lower", changed<to_lower>},
    {"title", changed<to_title>},
    {"capitalize", changed<to_capitalized>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", split_lines},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"startswith", begins_or_ends<begins>},
    {"endswith", begins_or_ends<ends>},
    {"find", find<false, false>},
    {"rfind", find<true, false>},
    {"index", find<false, true>},
    {"rindex", find<true, true>},
    {"count", count},
    {"replace", replace},
    {"join", join},
    {"removeprefix", without<true>},
    {"removesuffix", without<false>},
    {"ljust", padded<Side::kLeft>},
    {"rjust", padded<Side::kRight>},
    {"center", padded<Side::kBoth>},
    {"zfill", zero_filled},
    {"isalpha", all_of<is_python_alpha>},
    {"isdigit", all_of<is_python_digit>},
    {"isnumeric", all_of<is_python_numeric>},
    {"isalnum", all_of<is_letter_or_number>},
    {"isspace", all_of<is_python_space>},
    {"isupper", has_case<true>},
    {"islower", has_case<false>},
};

}  // namespace
}  // namespace of_text_methods

Function find_text_method(std::string_view name) { return find_in(of_text_methods::kTextMethods, name); }

std::string_view stripped(std::string_view text, const std::string* characters, Side side) {
  const auto goes = [&](size_t begin, size_t end, char32_t c) {
    if (characters == nullptr) return is_python_space(c);
    return characters->find(text.substr(begin, end - begin)) != std::string::npos;
  };
  while (side != Side::kRight && !text.empty()) {
    size_t at = 0;
    const char32_t c = unicode::decode(text, &at);
    if (!goes(0, at, c)) break;
    text.remove_prefix(at);
  }
  while (side != Side::kLeft && !text.empty()) {
    size_t at = text.size();
    const char32_t c = unicode::decode_back(text, &at);
    if (!goes(at, text.size(), c)) break;
    text = text.substr(0, at);
  }
  return text;
}

std::string replaced(std::string_view text, std::string_view what, std::string_view by, int64_t count,
                     Meter& meter) {
  std::string out;
  size_t at = 0;
  const auto put = [&](std::string_view part) {
    meter.charge_text(part.size());
    out += part;
    meter.check_size(out.size());
  };
  if (what.empty()) {  // before each character, and at the end
    for (; count != 0; --count) {
      put(by);
      if (at >= text.size()) return out;
      const size_t begin = at;
      unicode::decode(text, &at);
      put(text.substr(begin, at - begin));
    }
  } else {
    for (; count != 0; --count) {
      const size_t next = find_text(text, what, at);
      if (next == std::string_view::npos) break;
      put(text.substr(at, next - at));
      put(by);
      at = next + what.size();
    }
  }
  put(text.substr(at));
  return out;
}

std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends) {
  const auto ends_line = [](char32_t c) {
    return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
  };
  std::vector<std::string_view> out;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = unicode::decode(text, &at);
    if (!ends_line(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    out.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) out.push_back(text.substr(begin));
  return out;
}

}  // namespace lathe::templates
