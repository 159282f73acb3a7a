#pragma once
#include <string>
#include <utility>
#include <vector>

namespace lathe {

/// A machine of `lathe launch --hosts`, and how many processes run on it.
struct LaunchHost {
  std::string name;  ///< as ssh takes it: host or user@host
  int ranks = 1;
  std::string ip = {};  ///< how the other machines reach it; empty: by its name
};

/// The hosts of a file in the form of MLX's launcher, as `mlx.distributed_config --output` writes it: JSON, a
/// list of hosts, or an object with it under "hosts"; of each "ssh" and "ips" (the first counts).  `ranks` on
/// each.  Source: MLX's documentation, "Launching Distributed Programs".  Errors: kNotFound, kIo;
/// kInvalidData, naming file, host and key.
std::vector<LaunchHost> read_host_file(const std::string& path, int ranks);

/// "a,user@b:2" as hosts; `ranks` for those that give no number.  Errors: kUsage, naming --hosts.
std::vector<LaunchHost> parse_hosts(const std::string& list, int ranks);

/// How the other machines reach it: its ip, or its name without "user@".
std::string address_of(const LaunchHost& host);

/// How a rank on another machine is started, and what the process there is told first.
struct RemoteRank {
  std::vector<std::string> words;  ///< $LATHE_SSH or ssh, the host, and a line for the shell there
  /// To the standard input: a line NAME=VALUE for each variable (no other user of either machine sees them
  /// there), then an empty one.
  std::string greeting;
};

/// Runs `command` in `folder` there.  Lines on the standard input that follow the greeting are names of
/// signals for it (TERM); when the input ends it is made to end.  The exit code is the command's, 128 + n
/// where signal n ended it.
RemoteRank remote_rank(const std::string& host, const std::string& folder,
                       const std::vector<std::string>& command,
                       const std::vector<std::pair<std::string, std::string>>& variables);

/// Variables of this process that a rank elsewhere shall have, too: those that Lathe, the Hub's client,
/// proxies and the libraries between processes read; the launcher's own are not among them.
std::vector<std::pair<std::string, std::string>> forwarded_variables();

}  // namespace lathe
