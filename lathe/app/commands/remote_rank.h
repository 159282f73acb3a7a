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
/// list of hosts, or an object with the list under "hosts".  Each host has "ssh" and "ips" (the first one is
/// used).  Each gets `ranks` processes.  Source: MLX's documentation, "Launching Distributed Programs".
/// Errors: kNotFound, kIo; kInvalidData, naming file, host and key.
std::vector<LaunchHost> read_host_file(const std::string& path, int ranks);

/// "a,user@b:2" as hosts; `ranks` for those without a number.  Errors: kUsage, naming --hosts.
std::vector<LaunchHost> parse_hosts(const std::string& list, int ranks);

/// How the other machines reach this host: its ip, or its name without "user@".
std::string address_of(const LaunchHost& host);

/// How to start a rank on another machine, and what to send to the process there first.
struct RemoteRank {
  std::vector<std::string> words;  ///< $LATHE_SSH or ssh, the host, and a line for the shell there
  /// For its standard input: a line NAME=VALUE for each variable, then an empty line.  Other users of either
  /// machine cannot see the variables there.
  std::string greeting;
};

/// Runs `command` in `folder` on that host.  Later lines on the standard input are names of signals for the
/// command (TERM); when the input ends, the command is ended.  The exit code is the command's, or 128 + n if
/// signal n ended it.
RemoteRank remote_rank(const std::string& host, const std::string& folder,
                       const std::vector<std::string>& command,
                       const std::vector<std::pair<std::string, std::string>>& variables);

/// Variables of this process that a rank on another machine needs, too: those that Lathe, the Hub's client,
/// proxies and the libraries between processes read; not the launcher's own.
std::vector<std::pair<std::string, std::string>> forwarded_variables();

}  // namespace lathe
