#pragma once
#include <map>
#include <string>
#include <vector>

namespace lathe {

/// A flag of a command.
struct Flag {
  std::string name;                       ///< "--file"
  std::string value = {};                 ///< how help shows what it takes: "FILE"; empty: a switch
  std::string meaning = {};               ///< one line, where the usage does not say it
  std::vector<std::string> choices = {};  ///< values that it takes; empty: any
};

/// What may follow the name of a command: the one list behind parsing, help, completion and man page.
struct Syntax {
  std::string usage;
  std::vector<Flag> flags;              ///< --help and -h are taken besides
  std::vector<std::string> words = {};  ///< what the first other word may be; empty: anything
  bool or_files = false;                ///< or a file or folder
  bool flags_alone = false;             ///< no other words are taken

  bool has(const std::string& flag) const;
};

/// --device of a small command.
Flag device_flag();

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

/// Words behind "--" are none of them flags.
/// Errors: kUsage for an unknown flag, a flag without its value, a switch with one, or words where flags
/// alone are taken; the usage is appended.
Options parse_options(const std::vector<std::string>& args, const Syntax& syntax);

/// The lines of a text file (also .gz) without their ends and without a byte order mark.  Errors: kNotFound,
/// kInvalidData.
std::vector<std::string> read_lines(const std::string& path);

/// A flag's value as a whole number of at least `low`.  Errors: kUsage.
int whole_number(const Options& options, const std::string& flag, int fallback, int low);
/// The same of a text that was given for the flag.
int whole_number(const std::string& flag, const std::string& text, int low);

}  // namespace lathe
