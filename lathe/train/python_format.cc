#include "lathe/train/python_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

using nlohmann::json;

constexpr char32_t kReplacement = 0xFFFD;

/// Reads one code point at `i` and moves past it; kReplacement and one byte further where it is malformed.
char32_t next_code_point(std::string_view s, size_t& i) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(s[at]); };
  const unsigned char lead = byte(i);
  const int length = lead < 0x80                   ? 1
                     : lead >= 0xC2 && lead < 0xE0 ? 2
                     : (lead & 0xF0) == 0xE0       ? 3
                     : lead >= 0xF0 && lead < 0xF5 ? 4
                                                   : 0;
  if (length == 1) return byte(i++);
  if (length == 0 || i + static_cast<size_t>(length) > s.size()) return ++i, kReplacement;
  char32_t c = lead & (0x7Fu >> length);
  for (int k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xC0) != 0x80) return ++i, kReplacement;
    c = (c << 6) | (byte(i + k) & 0x3Fu);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (c < kLeast[length] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return ++i, kReplacement;
  i += static_cast<size_t>(length);
  return c;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

/// \n, \t, ... of one character, or empty.
std::string_view short_escape(char32_t c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\\':
      return "\\\\";
    default:
      return {};
  }
}

void append_json_string(std::string& out, std::string_view s, bool ensure_ascii) {
  out += '"';
  for (size_t i = 0; i < s.size();) {
    const char32_t c = next_code_point(s, i);
    if (const auto escape = short_escape(c); !escape.empty()) {
      out += escape;
    } else if (c == '"') {
      out += "\\\"";
    } else if (c == '\b' || c == '\f') {
      out += c == '\b' ? "\\b" : "\\f";
    } else if (c < 0x20 || (ensure_ascii && c >= 0x7F && c < 0x10000)) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else if (ensure_ascii && c >= 0x10000) {
      const auto low = static_cast<uint32_t>(c) - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (low >> 10), 0xDC00 + (low & 0x3FF));
    } else {
      append_utf8(out, c);
    }
  }
  out += '"';
}

std::string json_number(double x) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x > 0 ? "Infinity" : "-Infinity";
  return python_repr(x);
}

struct JsonStyle {
  int indent;
  bool ensure_ascii;
};

template <typename J>
void append_json(std::string& out, const J& value, const JsonStyle& style, int depth) {
  const auto new_line = [&](int level) {
    if (style.indent >= 0) out += '\n' + std::string(static_cast<size_t>(style.indent * level), ' ');
  };
  const char* separator = style.indent >= 0 ? "," : ", ";
  if (value.is_string()) {
    append_json_string(out, value.template get_ref<const std::string&>(), style.ensure_ascii);
  } else if (value.is_number_float()) {
    out += json_number(value.template get<double>());
  } else if (value.is_structured() && !value.empty()) {
    out += value.is_object() ? '{' : '[';
    bool first = true;
    for (auto it = value.begin(); it != value.end(); ++it) {
      if (!first) out += separator;
      first = false;
      new_line(depth + 1);
      if (value.is_object()) {
        append_json_string(out, it.key(), style.ensure_ascii);
        out += ": ";
      }
      append_json(out, *it, style, depth + 1);
    }
    new_line(depth);
    out += value.is_object() ? '}' : ']';
  } else {
    out += value.dump();
  }
}

void append_repr_string(std::string& out, std::string_view s) {
  const bool has_single = s.find('\'') != std::string_view::npos;
  const char quote = has_single && s.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for (size_t i = 0; i < s.size();) {
    const char32_t c = next_code_point(s, i);
    if (const auto escape = short_escape(c); !escape.empty()) {
      out += escape;
    } else if (c == static_cast<char32_t>(quote)) {
      out += '\\';
      out += quote;
    } else if (c < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else {
      append_utf8(out, c);
    }
  }
  out += quote;
}

// Python's three words that JSON does not have travel through the JSON parser as strings with this prefix,
// which a JSON text cannot hold unescaped and no sane file holds escaped.
constexpr std::string_view kMark = "\x7Flathe:";

std::string mark_python_words(std::string_view text) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\' && i + 1 < text.size()) {
      out += c;
      out += text[++i];
      continue;
    }
    if (c == '"') in_string = !in_string;
    bool replaced = false;
    for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (in_string || !text.substr(i).starts_with(word)) continue;
      out += fmt::format("\"{}{}\"", kMark, word);
      i += word.size() - 1;
      replaced = true;
      break;
    }
    if (!replaced) out += c;
  }
  return out;
}

void unmark_python_words(json& value) {
  if (value.is_structured()) {
    for (auto& item : value) unmark_python_words(item);
    return;
  }
  if (!value.is_string()) return;
  std::string_view text = value.get_ref<const std::string&>();
  if (!text.starts_with(kMark)) return;
  text.remove_prefix(kMark.size());
  constexpr double kInf = std::numeric_limits<double>::infinity();
  value = text == "NaN" ? std::numeric_limits<double>::quiet_NaN() : text == "Infinity" ? kInf : -kInf;
}

}  // namespace

std::string python_repr(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  std::string text =
      fmt::format("{}", x);  // shortest round trip; exponent form below 1e-4 and from 1e16, as Python
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string python_repr(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_number_float()) return python_repr(value.get<double>());
  std::string out;
  if (value.is_string()) {
    append_repr_string(out, value.get_ref<const std::string&>());
    return out;
  }
  if (!value.is_structured()) return value.dump();
  out += value.is_object() ? '{' : '[';
  bool first = true;
  for (auto it = value.begin(); it != value.end(); ++it) {
    if (!first) out += ", ";
    first = false;
    if (value.is_object()) {
      append_repr_string(out, it.key());
      out += ": ";
    }
    out += python_repr(*it);
  }
  out += value.is_object() ? '}' : ']';
  return out;
}

double python_round(double x, int digits) {
  if (!std::isfinite(x)) return x;
  return parse_double(fmt::format("{:.{}f}", x, digits)).value();
}

std::string python_json(const json& value, int indent, bool ensure_ascii) {
  std::string out;
  append_json(out, value, {indent, ensure_ascii}, 0);
  return out;
}

std::string python_json(const nlohmann::ordered_json& value, int indent, bool ensure_ascii) {
  std::string out;
  append_json(out, value, {indent, ensure_ascii}, 0);
  return out;
}

json parse_python_json(std::string_view text, std::string_view source) {
  json value = parse_json(mark_python_words(text), std::string(source));
  unmark_python_words(value);
  return value;
}

std::optional<double> parse_double(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
#if defined(__cpp_lib_to_chars)
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool all = error == std::errc() && end == text.data() + text.size();
#else
  const bool negative = text.starts_with('-');
  std::string word(text.substr(negative ? 1 : 0));
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (word == "inf" || word == "infinity") return negative ? -HUGE_VAL : HUGE_VAL;
  if (word == "nan") return std::nan("");
  // A stream takes more: space before it, a second plus, hexadecimal digits.
  if (text.starts_with('+') || text.find_first_not_of("0123456789.eE+-") != text.npos) return std::nullopt;
  std::istringstream in{std::string(text)};
  in.imbue(std::locale::classic());
  in >> value;
  const bool all = !in.fail() && in.eof();
#endif
  return all ? std::optional<double>(value) : std::nullopt;
}

}  // namespace lathe
