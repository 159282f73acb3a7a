// Filters of texts, numbers and single values, and the table of all.  sequence_filters.cc has those of lists.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "lathe/text/python_format.h"
#include "lathe/text/python_text.h"
#include "lathe/text/text.h"
#include "lathe/tokenizers/templates/library.h"
#include "lathe/tokenizers/templates/machine.h"
#include "lathe/tokenizers/templates/sequence_filters.h"
#include "lathe/tokenizers/templates/text_methods.h"

namespace lathe::templates {
namespace of_filters {
namespace {

/// self as str() has it, metered.
std::string text_for(Machine& m, const Value& self) { return to_text(self, m.meter()); }

template <std::string (*change)(std::string_view)>
Value changed(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("upper, lower or capitalize", arguments, {});
  const Text* text = as_text(self);
  return m.text(change(text_for(m, self)), text != nullptr && text->safe);
}

/// Words begin after white space, -, (, {, [ and <; the rest is in lower case.  Source: the filter `title`.
Value title(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("title", arguments, {});
  const std::string text = text_for(m, self);
  std::string out;
  size_t begin = 0;
  const auto put = [&](size_t end) {
    if (end == begin) return;
    size_t first = begin;
    do ++first;
    while (first < end && (text[first] & 0xC0) == 0x80);
    const std::string_view word = std::string_view(text).substr(begin, end - begin);
    out += to_upper(word.substr(0, first - begin)) + to_lower(word.substr(first - begin));
  };
  for (size_t i = 0; i < text.size();) {
    const int size = std::max(1, static_cast<int>(std::min<size_t>(4, text.size() - i)));
    const auto white = decode_utf8(std::string_view(text).substr(i, static_cast<size_t>(size)));
    const bool ends =
        std::string_view("-({[<").find(text[i]) != std::string_view::npos || is_python_space(white[0]);
    size_t next = i + 1;
    while (next < text.size() && (text[next] & 0xC0) == 0x80) ++next;
    if (ends) {
      put(i);
      out += text.substr(i, next - i);
      begin = next;
    }
    i = next;
  }
  put(text.size());
  return m.text(std::move(out));
}

Value trim(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("trim", arguments, {"chars"});
  const Text* text = as_text(self);
  const bool white = args[0] == nullptr || is_none(*args[0]);
  const std::string characters = args.text(0, "");
  return m.text(std::string(stripped(text_for(m, self), white ? nullptr : &characters, Side::kBoth)),
                text != nullptr && text->safe);
}

Value replace(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("replace", arguments, {"old", "new", "count"}, 2);
  return m.text(replaced(text_for(m, self), text_for(m, *args[0]), text_for(m, *args[1]), args.integer(2, -1),
                         m.meter()));
}

/// Source: the filter `indent`: lines but for the first, and those that are empty only if `blank`.
Value indent(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("indent", arguments, {"width", "first", "blank"});
  const bool word = args[0] != nullptr && as_text(*args[0]) != nullptr;
  const int64_t width = word ? 0 : std::max<int64_t>(args.integer(0, 4), 0);
  m.meter().check_size(static_cast<size_t>(width));
  const std::string margin = word ? args.text(0, "") : std::string(static_cast<size_t>(width), ' ');
  const bool blank = args.flag(2, false);
  const std::string text = need_text("indent", self).bytes + "\n";
  m.meter().charge_text(text.size());
  const std::vector<std::string_view> lines = lines_of(text, false);
  std::string out = args.flag(1, false) ? margin : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += blank || !lines[i].empty() ? "\n" + margin : "\n";
    out += lines[i];
    m.meter().charge_text(margin.size() + lines[i].size());
    m.meter().check_size(out.size());
  }
  return m.text(std::move(out));
}

Value string(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("string", arguments, {});
  return text_of(self, m.meter());
}

Value safe(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("safe", arguments, {});
  return m.text(text_for(m, self), true);
}

template <bool again>
Value escape(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("escape", arguments, {});
  const Text* text = as_text(self);
  if (!again && text != nullptr && text->safe) return self;
  const std::string bytes = text_for(m, self);
  m.meter().check_size(bytes.size(), 5);
  return m.text(escaped(bytes), true);
}

Value format(Machine& m, const Value& self, const Arguments& arguments) {
  Value values;
  if (arguments.named.empty()) {
    values = m.list(arguments.positional, List::Kind::kTuple);
  } else {
    if (!arguments.positional.empty()) fault("format: expected arguments with names or without, not both");
    Pairs pairs;
    for (const auto& [name, value] : arguments.named) pairs.emplace_back(m.text(name), value);
    values = make_dict(std::move(pairs), m.meter());
  }
  return m.text(percent_format(text_for(m, self), values, m.meter()));
}

Value default_value(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("default", arguments, {"default_value", "boolean"});
  const bool missing = is_undefined(self) || (args.flag(1, false) && !truth(self));
  if (!missing) return self;
  return args[0] != nullptr ? *args[0] : m.text("");
}

/// As Python's int(text, base), or nothing.
std::optional<int64_t> integer_of(std::string_view text, int64_t base) {
  text = stripped(text, nullptr, Side::kBoth);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const char mark = text.size() > 1 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : ' ';
  if ((base == 16 && mark == 'x') || (base == 8 && mark == 'o') || (base == 2 && mark == 'b'))
    text.remove_prefix(2);
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_' && i > 0 && i + 1 < text.size() && text[i - 1] != '_') continue;
    digits += text[i];
  }
  if (digits.starts_with('-')) return {};
  if (negative) digits.insert(0, "-");
  int64_t out = 0;
  const auto result =
      std::from_chars(digits.data(), digits.data() + digits.size(), out, static_cast<int>(base));
  if (result.ec == std::errc::result_out_of_range) fault("int: found an integer beyond 64 bits");
  const bool all = !digits.empty() && result.ec == std::errc() && result.ptr == digits.data() + digits.size();
  return all ? std::optional<int64_t>(out) : std::nullopt;
}

int64_t whole_part(double x) {
  if (!(std::fabs(x) < 0x1p63)) fault("int: found a number beyond 64 bits");
  return static_cast<int64_t>(x);
}

Value integer(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("int", arguments, {"default", "base"});
  need_defined(self);
  const Value absent = args[0] != nullptr ? *args[0] : Value(int64_t{0});
  const int64_t base = args.integer(1, 10);
  if (base < 2 || base > 36) fault("int: found the base {}, expected one from 2 to 36", base);
  int64_t storage = 0;
  if (const int64_t* p = as_integer(self, &storage)) return *p;
  if (const double* d = std::get_if<double>(&self)) return std::isfinite(*d) ? Value(whole_part(*d)) : absent;
  const Text* text = as_text(self);
  if (text == nullptr) return absent;
  m.meter().charge_text(text->bytes.size());
  if (const auto whole = integer_of(text->bytes, base)) return *whole;
  const auto real = parse_double(stripped(text->bytes, nullptr, Side::kBoth));
  return real.has_value() && std::isfinite(*real) ? Value(whole_part(*real)) : absent;
}

Value real(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("float", arguments, {"default"});
  need_defined(self);
  if (is_number(self)) return as_double(self);
  if (const Text* text = as_text(self)) {
    m.meter().charge_text(text->bytes.size());
    if (const auto number = parse_double(stripped(text->bytes, nullptr, Side::kBoth))) return *number;
  }
  return args[0] != nullptr ? *args[0] : Value(0.0);
}

Value absolute(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("abs", arguments, {});
  need_defined(self);
  if (!is_number(self)) fault("abs: found a {}, expected a number", type_name(self));
  if (const double* d = std::get_if<double>(&self)) return std::fabs(*d);
  int64_t storage = 0;
  const int64_t whole = *as_integer(self, &storage);
  return whole < 0 ? apply(Operator{1}, int64_t{0}, whole, m.meter()) : Value(whole);
}

/// The multiple of a power of ten that is nearest, ties to the even one.
int64_t rounded_whole(int64_t x, int zeros) {
  if (zeros > 18) return 0;
  int64_t unit = 1;
  for (int i = 0; i < zeros; ++i) unit *= 10;
  const int64_t rest = x % unit, half = unit / 2, below = x - rest;
  const bool odd = below / unit % 2 != 0;
  const int64_t size = rest < 0 ? -rest : rest;
  const bool up = unit > 1 && (size > half || (size == half && odd));
  int64_t out = below;
  if (up && __builtin_add_overflow(below, rest < 0 ? -unit : unit, &out))
    fault("round: an integer beyond 64 bits");
  return out;
}

double rounded_real(double x, int digits) {
  if (digits > 22 || !std::isfinite(x)) return x;  // a double has no more of them
  if (digits >= 0) return python_round(x, digits);
  const double unit = std::pow(10.0, -digits);
  return std::isinf(unit) ? std::copysign(0.0, x) : std::nearbyint(x / unit) * unit;
}

Value round(Machine&, const Value& self, const Arguments& arguments) {
  const Bound args("round", arguments, {"precision", "method"});
  need_defined(self);
  if (!is_number(self)) fault("round: found a {}, expected a number", type_name(self));
  const auto digits = static_cast<int>(std::clamp<int64_t>(args.integer(0, 0), -400, 400));
  const std::string method = args.text(1, "common");
  if (method == "common") {
    int64_t storage = 0;
    if (const int64_t* whole = as_integer(self, &storage)) return rounded_whole(*whole, std::max(-digits, 0));
    return rounded_real(std::get<double>(self), digits);
  }
  if (method != "ceil" && method != "floor")
    fault("round: found the method {}, expected common, ceil or floor", method);
  const double scale = std::pow(10.0, digits), scaled = as_double(self) * scale;
  if (!std::isfinite(scaled) || scale == 0)
    fault("round: found {} digits of {}, which no number has", digits, as_double(self));
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
}

Value word_count(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("wordcount", arguments, {});
  const std::string text = text_for(m, self);
  int64_t out = 0;
  bool inside = false;
  for (const char32_t c : decode_utf8(text)) {
    const bool word = is_word_character(c);
    out += word && !inside ? 1 : 0;
    inside = word;
  }
  return out;
}

Value to_json_text(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonForm form;
  form.ensure_ascii = args.flag(0, false);
  form.sort_keys = args.flag(3, false);
  if (args[1] != nullptr && !is_none(*args[1])) {
    const Text* margin = as_text(*args[1]);
    const int64_t width = margin != nullptr ? 0 : std::max<int64_t>(args.integer(1, 0), 0);
    m.meter().check_size(static_cast<size_t>(width));
    form.indent = 0;
    form.indent_text = margin != nullptr ? margin->bytes : std::string(static_cast<size_t>(width), ' ');
    form.item_separator = ",";
  }
  if (args[2] != nullptr && !is_none(*args[2])) {
    const Values pair = iterate(*args[2], m.meter());
    if (pair.size() != 2) fault("tojson: found {} separators, expected 2", pair.size());
    form.item_separator = need_text("tojson", pair[0]).bytes;
    form.key_separator = need_text("tojson", pair[1]).bytes;
  }
  return m.text(to_json(self, form, m.meter()));
}

Value attribute(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("attr", arguments, {"name"}, 1);
  if (as_dict(self) != nullptr) {  // its keys are no attributes
    const std::string name = args.text(0, "");
    return find_method(self, name) != nullptr ? m.attribute(self, name)
                                              : undefined("a dict has no attribute '" + name + "'");
  }
  return m.attribute(self, args.text(0, ""));
}

constexpr NamedFunction kFilters[] = {
    {"abs", absolute},
    {"attr", attribute},
    {"capitalize", changed<to_capitalized>},
    {"d", default_value},
    {"default", default_value},
    {"e", escape<false>},
    {"escape", escape<false>},
    {"float", real},
    {"forceescape", escape<true>},
    {"format", format},
    {"indent", indent},
    {"int", integer},
    {"lower", changed<to_lower>},
    {"replace", replace},
    {"round", round},
    {"safe", safe},
    {"string", string},
    {"title", title},
    {"tojson", to_json_text},
    {"trim", trim},
    {"upper", changed<to_upper>},
    {"wordcount", word_count},
};

}  // namespace
}  // namespace of_filters

Function find_filter(std::string_view name) {
  const Function found = find_in(of_filters::kFilters, name);
  return found != nullptr ? found : find_sequence_filter(name);
}

}  // namespace lathe::templates
