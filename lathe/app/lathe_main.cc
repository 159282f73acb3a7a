// The program: lathe COMMAND …; called run_glue, run_qa, run_ner, run_mlm or run_swag, it is that command.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "lathe/app/bus_error.h"
#include "lathe/app/commands/commands.h"
#include "lathe/app/terminal/signals.h"
#include "lathe/app/terminal/terminal.h"
#include "lathe/core/environment.h"
#include "lathe/core/error.h"
#include "lathe/core/version.h"
#include "lathe/io/file_system.h"

namespace {

/// The folder of the program, with a slash at the end; a shell may have found it in $PATH.  "" if it is not
/// found.
std::string folder_of(const std::string& path) {
  if (const size_t slash = path.rfind('/'); slash != std::string::npos) return path.substr(0, slash + 1);
  const std::string folders = lathe::environment("PATH");
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string folder = end == begin ? "./" : folders.substr(begin, end - begin) + "/";
    if (access((folder + path).c_str(), X_OK) == 0) return folder;
    begin = end + 1;
  }
  return "";
}

/// As HfArgumentParser does with a file next to the script; not if a configuration file is the only argument.
void prepend_arguments_file(const std::string& path, std::vector<std::string>& args) {
  if (args.size() == 1 && args[0].ends_with(".json")) return;
  const std::vector<std::string> words = lathe::read_arguments_file(path);
  if (words.empty()) return;
  lathe::print_error(fmt::format("[INFO] the flags in {} come first\n", path));
  args.insert(args.begin(), words.begin(), words.end());
}

int dispatch(const std::string& path, std::vector<std::string> args) {
  const std::string program = lathe::file_name(path);
  std::string name;
  for (const lathe::Command& command : lathe::commands())
    if (!command.script.empty() && program == command.script) name = command.name;
  if (name.empty()) {
    if (args.size() > 1 && args[0] == "help") {  // lathe help COMMAND [all]
      std::swap(args[0], args[1]);
      args[1] = "--help";
    }
    if (args.empty() || args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
      fmt::print("{}", lathe::overview());
      return args.empty() ? 2 : 0;
    }
    if (args[0] == "--version" || args[0] == "version") {
      fmt::print("lathe {}\n", lathe::kVersion);
      return 0;
    }
    name = args[0];
    args.erase(args.begin());
  }
  for (const lathe::Command& command : lathe::commands()) {
    if (name != command.name) continue;
    if (const std::string folder = folder_of(path); !folder.empty() && !command.script.empty())
      prepend_arguments_file(folder + command.script + ".args", args);
    return command.run(args);
  }
  std::vector<std::string_view> names{"help", "version"};
  for (const lathe::Command& command : lathe::commands()) names.emplace_back(command.name);
  const auto near = lathe::nearest_names(name, names);
  const bool like_one = !near.empty() && name.size() > 2;  // two letters are near to any two
  lathe::fail(lathe::ErrorCode::kUsage, "lathe: unknown command {}{}\n{}", name,
              like_one ? fmt::format("; did you mean {}?", near[0]) : "", lathe::overview());
}

/// Files that are opened later are not to get the numbers of standard streams that are closed.
void open_standard_streams() {
  int descriptor = 0;
  while (descriptor <= STDERR_FILENO && descriptor >= 0) descriptor = open("/dev/null", O_RDWR);
  if (descriptor > STDERR_FILENO) close(descriptor);
}

/// `reason`: an errno, or 0 where it is not known any more.
int unwritten(int reason) {
  lathe::print_error(fmt::format("error: standard output{}{}: it could not be written, and is not whole\n",
                                 reason == 0 ? "" : ": ", reason == 0 ? "" : strerror(reason)));
  return 1;
}

/// Writes what is left of standard output.  The exit code.
int end_with(int code) {
  if (std::ferror(stdout) != 0) return unwritten(0);
  return std::fflush(stdout) == 0 ? code : unwritten(errno);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  lathe::explain_bus_errors();
  signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit of its size is an error of the one who writes it
  try {
    return end_with(dispatch(argv[0], {argv + 1, argv + argc}));
  } catch (const lathe::Error& error) {
    lathe::print_error(fmt::format("error: {}\n", error.what()));
    if (error.code() == lathe::ErrorCode::kInterrupted && lathe::stop_signal() != 0)
      lathe::end_by_signal(lathe::stop_signal());
    return lathe::exit_code(error.code());
  } catch (const std::bad_alloc&) {
    lathe::print_error(
        "error: out of memory; give this process more, or take a smaller model or "
        "--per_device_train_batch_size\n");
    return 1;
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return unwritten(error.code().value());
    lathe::print_error(fmt::format("error: {} (a fault of lathe itself)\n", error.what()));
    return 1;
  } catch (const std::exception& error) {
    lathe::print_error(fmt::format("error: {} (a fault of lathe itself)\n", error.what()));
    return 1;
  }
}
