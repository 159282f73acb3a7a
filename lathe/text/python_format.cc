#include "lathe/text/python_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lathe/io/json_file.h"
#include "lathe/text/text.h"
#include "lathe/text/unicode.h"

namespace lathe {
namespace {

using nlohmann::json;

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
    out += python_json_string(value.template get_ref<const std::string&>(), style.ensure_ascii);
  } else if (value.is_number_float()) {
    out += python_float(value.template get<double>());
  } else if (value.is_structured() && !value.empty()) {
    out += value.is_object() ? '{' : '[';
    bool first = true;
    for (auto it = value.begin(); it != value.end(); ++it) {
      if (!first) out += separator;
      first = false;
      new_line(depth + 1);
      if (value.is_object()) {
        out += python_json_string(it.key(), style.ensure_ascii);
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
  for (const char32_t c : decode_utf8(s)) {
    if (const auto escape = short_escape(c); !escape.empty()) {
      out += escape;
    } else if (c == static_cast<char32_t>(quote)) {
      out += '\\';
      out += quote;
    } else if (c < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else {
      unicode::append_utf8(c, &out);
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

std::string python_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  std::string text = fmt::format("{}", value);  // its exponent form begins where Python's does
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string python_json_string(std::string_view text, bool ensure_ascii) {
  std::string valid;
  for (const char32_t c : decode_utf8(text)) unicode::append_utf8(c, &valid);
  return nlohmann::json(std::move(valid)).dump(-1, ' ', ensure_ascii);
}

std::string python_repr(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return python_float(x);
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
