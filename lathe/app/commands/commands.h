#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/settings/help.h"

namespace lathe {

/// A command of the program.  Its file in this folder has its settings, their table, its code, and a function
/// NAME_command; commands.cc has that function's name.
struct Command : Syntax {
  /// The example of Hugging Face whose flags it takes: a link of this name to the program is the command.
  std::string script = {};
  std::string group = {};  ///< the title under which `lathe` lists it
  /// Takes the words after the command's name, gives the exit code.  Throws Error.
  std::function<int(const std::vector<std::string>&)> run = {};
};

/// The words of a call that are no flags, and the names of the given flags.
struct Call {
  const Command& command;
  std::vector<std::string> args;  ///< all words as given
  std::vector<std::string> words;
  std::set<std::string_view> given;

  /// Throws kUsage, with the forms of the command.
  [[noreturn]] void refuse(const std::string& why) const;
};

/// Reads flags into `fields`.  Empty: it was a call for help, which is printed.
/// Errors: kUsage.
std::optional<Call> read_call(const Command& command, const std::vector<BoundField>& fields,
                              const std::vector<std::string>& args);

/// Makes a command from its texts, the table of its settings S, and its body.
template <typename S>
Command make_command(Syntax syntax, std::vector<Field<S>> rows, int (*body)(S&, const Call&)) {
  const auto table = std::make_shared<const std::vector<Field<S>>>(std::move(rows));
  syntax.sections = {help_section("flags", *table)};
  Command command{std::move(syntax)};
  command.run = [command, table, body](const std::vector<std::string>& args) {
    S settings;
    const std::optional<Call> call = read_call(command, bind(*table, settings), args);
    return call ? body(settings, *call) : 0;
  };
  return command;
}

/// All commands, in the order of help.
const std::vector<Command>& commands();

/// The names of those that are scripts, in that order.
std::vector<std::string> script_commands();

/// What `lathe` prints without a command: the commands by group, a line each, and an example.
std::string overview();

/// All commands' flags as Markdown: the page docs/arguments.md.
std::string command_page();

}  // namespace lathe
