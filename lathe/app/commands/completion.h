#pragma once
#include <string>
#include <vector>

#include "lathe/app/commands/commands.h"

namespace lathe {

/// A script for that shell ("bash", "zsh", "fish") which completes commands, flags and the choices of flags;
/// anything else is completed as a file.  Errors: kUsage for another shell.
std::string completion_script(const std::string& shell, const std::vector<Command>& commands);

/// lathe.1, in the macros of man(7): commands, their flags with meaning, environment, files, exit codes.
std::string man_page(const std::vector<Command>& commands);

}  // namespace lathe
