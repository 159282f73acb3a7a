#pragma once
#include <string>
#include <vector>

#include "lathe/app/commands/remote_rank.h"

namespace lathe {

/// What the words behind `lathe launch` say.
struct LaunchSettings {
  int ranks = 0, port = 0;           ///< of all hosts
  std::vector<LaunchHost> hosts;     ///< empty: this machine alone
  std::vector<std::string> command;  ///< "glue" and its flags
};

/// Errors: kUsage; kIo where no port is free.
LaunchSettings launch_settings(const std::vector<std::string>& args);

}  // namespace lathe
