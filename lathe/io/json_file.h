#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/io/file_system.h"

namespace lathe {

struct JsonLimits {
  int depth = 200;
  bool duplicate_keys = true;  ///< false: an error; true: the last one counts, as in Python
  uint32_t first_line = 1;     ///< of the text within its file, for messages
};

/// Parses JSON text in UTF-8 (a byte-order mark is skipped).  `file` names it in messages.  Whatever comes
/// from outside is parsed by the functions of this header and by nothing else: nlohmann's own have no limit
/// of depth, and what walks, compares or copies their result recurses.  Time is linear. Throws kInvalidData
/// "file:line:column: …"; columns count bytes from 1.
nlohmann::json parse_json(std::string_view text, const std::string& file, const JsonLimits& limits = {});

/// The same with the keys of objects in the order of the text, each once: limits.duplicate_keys does not
/// count. ordered_json looks a key up in linear time: iterate where there may be many.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& file,
                                          const JsonLimits& limits = {});

/// What parse_json reads, or nothing where it throws.
std::optional<nlohmann::json> json_or_nothing(std::string_view text);

/// Whether text is JSON of any depth; builds nothing.
bool is_json(std::string_view text);

/// Reads (also .gz) and parses.  Throws kNotFound, kIo, kInvalidData.
nlohmann::json read_json(FileSystem& fs, const std::string& path, const JsonLimits& limits = {});

/// The value under `key` of a JSON object.  `file` names it in messages ("config.json").
/// Throws kInvalidData when `object` is not an object, the key is missing, or the value is not a T:
/// "config.json: \"hidden_size\": found \"many\" (string), expected an integer".
/// T: bool, int, int64_t, double (also from an integer), float, std::string, std::vector of int64_t, double
/// or std::string, nlohmann::json (anything).
template <typename T>
T required(const nlohmann::json& object, std::string_view key, const std::string& file);

/// The same, but `fallback` when the key is missing or null.
template <typename T>
T value_or(const nlohmann::json& object, std::string_view key, T fallback, const std::string& file);

}  // namespace lathe
