#pragma once
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/settings/argument_table.h"

namespace lathe {

/// The words that are allowed between the flags of a command.
enum class Words {
  kScript,   ///< nothing; HfArgumentParser's rules
  kNone,     ///< nothing
  kAny,      ///< texts, folders, names; after "--" no word is a flag
  kCommand,  ///< nothing: the first word that is no flag begins a command with flags of its own
};

/// What parsing says beyond the values it wrote.
struct ParsedArguments {
  std::vector<std::string> notices;  ///< one line per old name that was used
  std::vector<std::string> words;    ///< what is no flag
  std::set<std::string_view> given;  ///< the flags among them, without "--", and the keys of x.json
  bool help = false;                 ///< -h or --help was among them
  bool help_all = false;             ///< --help all
};

/// Reads flags into bound fields. --a_b is --a-b; both --x v and --x=v work; a prefix is enough if only one
/// name has it; the last of several wins.  A bool is a switch without a value.
///
/// For a script, by HfArgumentParser's rules: a bool takes no value or one; a bool that is true by default
/// also has a --no_x; a single argument x.json is a file with all settings; names of older versions of
/// transformers are accepted with a notice.  Values are not checked here, but by validate().
///
/// Errors: kUsage naming the flag: for an unknown flag with its nearest neighbour, for a value with what the
/// flag needs.
/// Source: transformers 5.23 hf_argparser.py; Python's argparse.
ParsedArguments parse_arguments(const std::vector<BoundField>& fields, const std::vector<std::string>& args,
                                Words words = Words::kScript);

/// The words of a file of arguments (run_glue.args), to be put before those of the command line; empty if
/// there is no such file.
std::vector<std::string> read_arguments_file(const std::string& path);

/// The name in `names` most like `text`, or those that contain it; empty if none is close.
std::vector<std::string> nearest_names(std::string_view text, const std::vector<std::string_view>& names);

/// A script's arguments together with those of training, parsed and validated.
template <typename Script>
struct CommandLine {
  Script script;
  TrainingArguments training;
  std::vector<std::string> notices;
  bool help = false, help_all = false;  ///< nothing is validated then

  /// The fields of both, in the order of help and docs.  The command line must outlive them.
  std::vector<BoundField> fields() {
    auto all = bind(script), more = bind(training);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// What --print_config prints; saved as x.json, it is a config file.
  nlohmann::ordered_json config() { return to_json(fields()); }
};

/// All of `lathe glue` or `lathe qa` after its name.  Errors: kUsage.
template <typename Script>
CommandLine<Script> parse_command_line(const std::vector<std::string>& args) {
  CommandLine<Script> line;
  auto parsed = parse_arguments(line.fields(), args);
  line.help = parsed.help;
  line.help_all = parsed.help_all;
  line.notices = std::move(parsed.notices);
  if (line.help) return line;
  const auto add = [&line](const std::vector<std::string>& more) {
    line.notices.insert(line.notices.end(), more.begin(), more.end());
  };
  if (const auto notice = derive_head_rate(line.training, parsed.given)) line.notices.push_back(*notice);
  add(validate(line.training));
  add(validate(line.script, line.training));
  return line;
}

}  // namespace lathe
