// The program: lathe COMMAND …; called run_glue or run_qa, it is that command.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>

#include "lathe/app/argument_parser.h"
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

/// As HfArgumentParser does with a file beside the script; a lone configuration file stays alone.
void prepend_arguments_file(const std::string& path, std::vector<std::string>& args) {
  if (args.size() == 1 && args[0].ends_with(".json")) return;
  const std::vector<std::string> words = lathe::read_arguments_file(path);
  if (words.empty()) return;
  fmt::print(stderr, "[INFO] the flags in {} come first\n", path);
  args.insert(args.begin(), words.begin(), words.end());
}

int dispatch(const std::string& path, std::vector<std::string> args) {
  const std::string program = lathe::file_name(path), parent = path.substr(0, path.size() - program.size());
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
  if (name == "glue" || name == "qa") prepend_arguments_file(parent + "run_" + name + ".args", args);
  for (const lathe::Command& command : lathe::commands())
    if (name == command.name) return command.run(args);
  lathe::fail(lathe::ErrorCode::kUsage, "lathe: unknown command {}\n{}", name, help());
}

}  // namespace

int main(int argc, char** argv) {
  lathe::install_stop_signals();
  try {
    return dispatch(argv[0], {argv + 1, argv + argc});
  } catch (const lathe::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return lathe::exit_code(error.code());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory; a smaller --per_device_train_batch_size needs less\n");
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {} (a fault of lathe itself)\n", error.what());
    return 1;
  }
}
