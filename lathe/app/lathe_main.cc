// The program: lathe COMMAND …; called run_glue or run_qa, it is that command.
#include <fmt/format.h>

#include <cstdio>
#include <new>

#include "lathe/app/commands.h"
#include "lathe/app/signals.h"
#include "lathe/core/error.h"
#include "lathe/core/version.h"
#include "lathe/io/file_system.h"

namespace {

std::string help() {
  std::string text = fmt::format("lathe {}: native fine-tuning of transformers\n\nusage: lathe COMMAND …\n\n",
                                 lathe::kVersion);
  for (const lathe::Command& command : lathe::commands())
    text += fmt::format("  {:<10} {}\n", command.name, command.summary);
  return text + "\nlathe COMMAND --help shows a command's flags and their defaults.\n";
}

int dispatch(const std::string& program, std::vector<std::string> args) {
  std::string name;
  if (program == "run_glue" || program == "run_qa") {
    name = program.substr(4);
  } else {
    if (args.empty() || args[0] == "--help" || args[0] == "-h") {
      fmt::print("{}", help());
      return args.empty() ? 2 : 0;
    }
    if (args[0] == "--version") {
      fmt::print("lathe {}\n", lathe::kVersion);
      return 0;
    }
    name = args[0];
    args.erase(args.begin());
  }
  for (const lathe::Command& command : lathe::commands())
    if (name == command.name) return command.run(args);
  lathe::fail(lathe::ErrorCode::kUsage, "lathe: unknown command {}\n{}", name, help());
}

}  // namespace

int main(int argc, char** argv) {
  lathe::install_stop_signals();
  try {
    return dispatch(lathe::file_name(argv[0]), {argv + 1, argv + argc});
  } catch (const lathe::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return lathe::exit_code(error.code());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory; a smaller --per_device_train_batch_size needs less\n");
    return 1;
  }
}
