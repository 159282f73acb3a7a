#include "lathe/io/json_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "lathe/io/gzip.h"
#include "lathe/io/keys_once.h"

namespace lathe {
namespace {

using nlohmann::json;

/// "file:line:column" of a byte offset.
std::string place(std::string_view text, size_t offset, const std::string& file) {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t column = offset - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  return fmt::format("{}:{}:{}", file, line, column);
}

/// Printable ASCII, not too long: a message must not carry a megabyte or broken UTF-8.
std::string printable(std::string_view text) {
  constexpr size_t kLongest = 160;
  std::string out(text.substr(0, kLongest));
  for (char& c : out)
    if (c < ' ' || c > '~') c = '?';
  return text.size() > kLongest ? out + "..." : out;
}

/// The parser itself does not recurse, but what walks its result does.
void check_depth(std::string_view text, const std::string& file, int limit) {
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_text = !in_text;
    } else if (!in_text && (c == '[' || c == '{')) {
      if (++depth > limit)
        fail(ErrorCode::kInvalidData, "{}: nested deeper than the limit of {}", place(text, i, file), limit);
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
    fail(ErrorCode::kInvalidData, "{}: \"{}\": found {} ({}), wants {}", file, key, found, kind_of(value),
         Wanted<T>::kText);
  }
  return out;
}

/// Null if there is no such key.
const json* look_up(const json& object, std::string_view key, const std::string& file) {
  if (!object.is_object())
    fail(ErrorCode::kInvalidData, "{}: \"{}\" is looked for in {}, wants an object", file, key,
         kind_of(object));
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

}  // namespace

json parse_json(std::string_view text, const std::string& file, const JsonLimits& limits) {
  check_depth(text, file, limits.depth);
  const auto refuse = [&](const DuplicateKey& twice) {
    fail(ErrorCode::kInvalidData, "{}: the key {} occurs twice in one object",
         place(text, twice.object, file), printable(json(twice.key).dump()));
  };
  try {
    if (limits.duplicate_keys) return json::parse(text.begin(), text.end());
    return parse_keys_once<json>(text, refuse);
  } catch (const json::parse_error& error) {
    const size_t offset = std::min(error.byte > 0 ? error.byte - 1 : 0, text.size());
    fail(ErrorCode::kInvalidData,
         "{}: not valid JSON: {}; mend the text there, or fetch or save the file again",
         place(text, offset, file), printable(reason_of(error.what())));
  } catch (const json::exception& error) {
    fail(ErrorCode::kInvalidData, "{}: not valid JSON: {}", place(text, place_beyond_double(text), file),
         printable(reason_of(error.what())));
  }
}

json read_json(FileSystem& fs, const std::string& path, const JsonLimits& limits) {
  return parse_json(read_text(fs, path), path, limits);
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
