#pragma once
#include <map>
#include <string>
#include <vector>

namespace lathe {

/// The words of a small command: flags with a value, switches, and the rest.
struct Options {
  std::map<std::string, std::string> values;  ///< "--file" → "x.txt"; a switch → ""
  std::vector<std::string> rest;

  bool has(const std::string& flag) const { return values.count(flag) > 0; }
  std::string get(const std::string& flag, const std::string& fallback = "") const {
    const auto it = values.find(flag);
    return it == values.end() ? fallback : it->second;
  }
};

/// Errors: kUsage for an unknown flag or a flag without its value; `usage` is appended.
Options parse_options(const std::vector<std::string>& args, const std::vector<std::string>& with_value,
                      const std::vector<std::string>& switches, const std::string& usage);

/// The lines of a text file (also .gz) without their ends.  Errors: kNotFound, kInvalidData.
std::vector<std::string> read_lines(const std::string& path);

/// A flag's value as a whole number of at least `low`.  Errors: kUsage.
int whole_number(const Options& options, const std::string& flag, int fallback, int low);
/// The same of a text that was given for the flag.
int whole_number(const std::string& flag, const std::string& text, int low);

}  // namespace lathe
