#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/io/file_system.h"

namespace lathe {

struct JsonLimits {
  int depth = 200;
  bool duplicate_keys = true;  ///< false: an error; true: the last one counts, as in Python
};

/// Parses JSON text in UTF-8 (a byte-order mark is skipped).  `file` names it in messages.
/// Throws kInvalidData "file:line:column: …"; columns count bytes from 1.
nlohmann::json parse_json(std::string_view text, const std::string& file, const JsonLimits& limits = {});

/// Reads (also .gz) and parses.  Throws kNotFound, kIo, kInvalidData.
nlohmann::json read_json(FileSystem& fs, const std::string& path, const JsonLimits& limits = {});

/// The value under `key` of a JSON object.  `file` names it in messages ("config.json").
/// Throws kInvalidData when `object` is not an object, the key is missing, or the value is not a T:
/// "config.json: \"hidden_size\": found \"many\" (string), wants an integer".
/// T: bool, int, int64_t, double (also from an integer), float, std::string, std::vector of int64_t, double
/// or std::string, nlohmann::json (anything).
template <typename T>
T required(const nlohmann::json& object, std::string_view key, const std::string& file);

/// The same, but `fallback` when the key is missing or null.
template <typename T>
T value_or(const nlohmann::json& object, std::string_view key, T fallback, const std::string& file);

}  // namespace lathe
