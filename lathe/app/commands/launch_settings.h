#pragma once
#include <string>
#include <vector>

#include "lathe/app/commands/commands.h"
#include "lathe/app/commands/remote_rank.h"

namespace lathe {

/// The flags of `lathe launch`.
struct LaunchFlags {
  std::optional<int> ranks, port;
  std::optional<std::string> hosts, host_file;
};

/// The settings from the flags and the words after them.
struct LaunchSettings {
  int ranks = 0, port = 0;           ///< of all hosts
  std::vector<LaunchHost> hosts;     ///< empty: only this machine
  std::vector<std::string> command;  ///< "glue" and its flags
};

/// Errors: kUsage; kIo if no port is free.
LaunchSettings launch_settings(const LaunchFlags& flags, const Call& call);

}  // namespace lathe
