#include "lathe/io/json_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "lathe/io/foreign_content.h"
#include "lathe/io/gzip.h"
#include "lathe/io/keys_once.h"

namespace lathe {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// What messages need of a text that is parsed.
struct Source {
  std::string_view text;
  const std::string& file;
  const JsonLimits& limits;

  /// "file:line:column" of a byte offset.
  std::string place(size_t offset) const {
    const std::string_view before = text.substr(0, offset);
    const auto line = limits.first_line + std::count(before.begin(), before.end(), '\n');
    const size_t column = offset - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
    return fmt::format("{}:{}:{}", file, line, column);
  }
};

/// Printable ASCII, not too long: a message must not carry a megabyte or broken UTF-8.
std::string printable(std::string_view text) {
  constexpr size_t kLongest = 160;
  std::string out(text.substr(0, kLongest));
  for (char& c : out)
    if (c < ' ' || c > '~') c = '?';
  return text.size() > kLongest ? out + "..." : out;
}

/// The parser itself does not recurse, but what walks its result does; and it takes a zero byte for the end.
void check_bytes(const Source& source) {
  const std::string_view text = source.text;
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\0') {
      refuse_foreign_content(text, source.file, "JSON");
      fail(ErrorCode::kInvalidData,
           "{}: found a zero byte, expected JSON text: the file is damaged, fetch or save it again",
           source.place(i));
    } else if (in_text && c == '\\') {
      i += i + 1 < text.size() && text[i + 1] != '\0';
    } else if (c == '"') {
      in_text = !in_text;
    } else if (!in_text && (c == '[' || c == '{')) {
      if (++depth > source.limits.depth)
        fail(ErrorCode::kInvalidData,
             "{}: found lists or objects nested deeper than {}, expected fewer levels: no file that is meant "
             "so "
             "has as many; fetch or save it again",
             source.place(i), source.limits.depth);
    } else if (!in_text && (c == ']' || c == '}')) {
      --depth;
    }
  }
}

/// What the parser says, without its own prefix and position.
std::string_view reason_of(std::string_view what) {
  const size_t bracket = what.find("] ");
  if (bracket != std::string_view::npos) what.remove_prefix(bracket + 2);
  const size_t colon = what.find(": ");
  if (what.starts_with("parse error") && colon != std::string_view::npos) what.remove_prefix(colon + 2);
  const size_t dash = what.find(" - ");
  if (what.starts_with("syntax error while parsing") && dash != std::string_view::npos)
    what.remove_prefix(dash + 3);
  return what;
}

const char* kind_of(const json& value) {
  if (value.is_number_float()) return "a number";
  if (value.is_number_integer()) return "an integer";
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "a bool";
  if (value.is_array()) return "a list";
  return value.is_object() ? "an object" : "null";
}

template <typename T>
struct Wanted;
template <>
struct Wanted<bool> {
  static constexpr const char* kText = "true or false";
};
template <>
struct Wanted<int> {
  static constexpr const char* kText = "an integer below 2^31";
};
template <>
struct Wanted<int64_t> {
  static constexpr const char* kText = "an integer below 2^63";
};
template <>
struct Wanted<double> {
  static constexpr const char* kText = "a number";
};
template <>
struct Wanted<float> {
  static constexpr const char* kText = "a number";
};
template <>
struct Wanted<std::string> {
  static constexpr const char* kText = "a string";
};
template <>
struct Wanted<std::vector<int64_t>> {
  static constexpr const char* kText = "a list of integers";
};
template <>
struct Wanted<std::vector<double>> {
  static constexpr const char* kText = "a list of numbers";
};
template <>
struct Wanted<std::vector<std::string>> {
  static constexpr const char* kText = "a list of strings";
};

template <typename T>
bool read(const json& value, T& out) {
  if constexpr (std::is_same_v<T, json>) {
    out = value;
    return true;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) return false;
    out = value.get<bool>();
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    if (!value.is_number_integer()) return false;
    if (value.is_number_unsigned() &&
        value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return false;
    const int64_t wide = value.get<int64_t>();
    if (wide < std::numeric_limits<T>::min() || wide > std::numeric_limits<T>::max()) return false;
    out = static_cast<T>(wide);
    return true;
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!value.is_number()) return false;
    out = value.get<T>();
    return true;
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!value.is_string()) return false;
    out = value.get<std::string>();
    return true;
  } else {
    if (!value.is_array()) return false;
    for (const json& item : value) {
      typename T::value_type element{};
      if (!read(item, element)) return false;
      out.push_back(std::move(element));
    }
    return true;
  }
}

template <typename T>
T convert(const json& value, std::string_view key, const std::string& file) {
  T out{};
  if (read(value, out)) return out;
  if constexpr (!std::is_same_v<T, json>) {
    const std::string found = printable(value.dump(-1, ' ', true, json::error_handler_t::replace));
    fail(ErrorCode::kInvalidData, "{}: \"{}\": found {} ({}), expected {}", file, key, found, kind_of(value),
         Wanted<T>::kText);
  }
  return out;
}

/// Null if there is no such key.
const json* look_up(const json& object, std::string_view key, const std::string& file) {
  if (!object.is_object())
    fail(ErrorCode::kInvalidData, "{}: \"{}\" is looked for in {}, expected an object", file, key,
         kind_of(object));
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

/// What `read`, given what refuses a key that stands twice, makes of the text.
template <typename Json, typename Read>
Json parse(const Source& source, const Read& read) {
  check_bytes(source);
  const auto refuse = [&](const DuplicateKey& twice) {
    fail(ErrorCode::kInvalidData,
         "{}: found the key {} twice in one object, expected each once: rename one or leave it out",
         source.place(twice.object), printable(json(twice.key).dump()));
  };
  try {
    return read(refuse);
  } catch (const json::parse_error& error) {
    refuse_foreign_content(source.text, source.file, "JSON");
    const size_t offset = std::min(error.byte > 0 ? error.byte - 1 : 0, source.text.size());
    const size_t end = source.text.find_last_not_of(" \t\r\n") + 1;
    fail(ErrorCode::kInvalidData, "{}: not valid JSON: {}; {}", source.place(offset),
         printable(reason_of(error.what())),
         offset >= end ? "the text ends too early: fetch or save the file again"
                       : "mend the text there, or fetch or save the file again");
  } catch (const json::exception& error) {
    fail(ErrorCode::kInvalidData, "{}: not valid JSON: {}: write a number that a double holds",
         source.place(place_beyond_double(source.text)), printable(reason_of(error.what())));
  }
}

}  // namespace

json parse_json(std::string_view text, const std::string& file, const JsonLimits& limits) {
  return parse<json>({text, file, limits}, [&](const auto& refuse) {
    return limits.duplicate_keys ? json::parse(text.begin(), text.end())
                                 : parse_keys_once<json>(text, refuse);
  });
}

ordered_json parse_ordered_json(std::string_view text, const std::string& file, const JsonLimits& limits) {
  return parse<ordered_json>({text, file, limits},
                             [&](const auto& refuse) { return parse_keys_once<ordered_json>(text, refuse); });
}

std::optional<json> json_or_nothing(std::string_view text) {
  try {
    return parse_json(text, "");
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool is_json(std::string_view text) {
  return text.find('\0') == std::string_view::npos && json::accept(text.begin(), text.end());
}

json read_json(FileSystem& fs, const std::string& path, const JsonLimits& limits) {
  return parse_json(read_text(fs, path, kSmallFileBytes), path, limits);
}

template <typename T>
T required(const json& object, std::string_view key, const std::string& file) {
  const json* value = look_up(object, key, file);
  if (value != nullptr) return convert<T>(*value, key, file);
  fail(ErrorCode::kInvalidData, "{}: the key \"{}\" is missing", file, key);
}

template <typename T>
T value_or(const json& object, std::string_view key, T fallback, const std::string& file) {
  const json* value = look_up(object, key, file);
  return value == nullptr || value->is_null() ? fallback : convert<T>(*value, key, file);
}

#define LT_JSON_GETTERS(T)                                                   \
  template T required<T>(const json&, std::string_view, const std::string&); \
  template T value_or<T>(const json&, std::string_view, T, const std::string&);
LT_JSON_GETTERS(bool)
LT_JSON_GETTERS(int)
LT_JSON_GETTERS(int64_t)
LT_JSON_GETTERS(double)
LT_JSON_GETTERS(float)
LT_JSON_GETTERS(std::string)
LT_JSON_GETTERS(std::vector<int64_t>)
LT_JSON_GETTERS(std::vector<double>)
LT_JSON_GETTERS(std::vector<std::string>)
LT_JSON_GETTERS(json)
#undef LT_JSON_GETTERS

}  // namespace lathe
