#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace lathe {

/// A float as Python prints it (`repr`): shortest digits that read back as the same double, "1e-05", "2.0",
/// "Infinity", "NaN" as `json.dumps` writes them.
std::string python_float(double value);
/// A JSON string literal as `json.dumps` writes it: characters outside ASCII as \uXXXX unless `ensure_ascii`
/// is off.  Every byte that is no part of well-formed UTF-8 becomes U+FFFD.
std::string python_json_string(std::string_view text, bool ensure_ascii = true);

/// The shortest text that reads back as x, laid out as Python's repr(float): 1e-05, 0.25, 3.0, nan, inf.
std::string python_repr(double x);

/// A JSON value as Python's repr of the same object: {'loss': 0.6975, 'epoch': 0.25}, None, True.
std::string python_repr(const nlohmann::ordered_json& value);

/// round(x, digits): the decimal nearest to x, ties of the exact binary value to even.
double python_round(double x, int digits);

/// The text of json.dumps(value, indent=…): floats by repr, NaN and Infinity as such, and everything outside
/// ASCII as \uXXXX unless `ensure_ascii` is off.  Invalid UTF-8 becomes U+FFFD.  indent < 0: one line.
/// nlohmann::json gives sorted keys (sort_keys=True), ordered_json the order of insertion.
std::string python_json(const nlohmann::json& value, int indent, bool ensure_ascii = true);
std::string python_json(const nlohmann::ordered_json& value, int indent, bool ensure_ascii = true);

/// JSON as Python's json.loads reads it: NaN, Infinity and -Infinity are numbers.
/// Errors: kInvalidData, naming `source`.
nlohmann::json parse_python_json(std::string_view text, std::string_view source);

/// A decimal number, whatever the locale; empty unless all of `text` is one.  "inf" and "nan" count.
std::optional<double> parse_double(std::string_view text);

}  // namespace lathe
