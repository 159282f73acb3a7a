#include "lathe/app/commands/launch_settings.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "lathe/app/commands/commands.h"
#include "lathe/core/error.h"
#include "lathe/settings/options.h"

namespace lathe {
namespace {

constexpr const char* kLaunchUsage =
    "usage: lathe launch -n N [--master_port P] glue|qa [flags]\n"
    "       lathe launch --hosts A,B:2 [-n N] [--master_port P] glue|qa [flags]\n"
    "       lathe launch --hostfile FILE [--master_port P] glue|qa [flags]\n"
    "  Trains with several processes: N on this machine, one per GPU or sharing its cores; through\n"
    "  ssh N (1) on each host, or the number behind its name; or on the hosts of a file in the form\n"
    "  of MLX's launcher.\n";
constexpr int kMostRanks = 4096;  // more is a slip: each is a process here, or an ssh

/// A port that nobody listens on now.
int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  socklen_t bytes = sizeof name;
  const bool found = bind(fd, reinterpret_cast<sockaddr*>(&name), bytes) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&name), &bytes) == 0;
  close(fd);
  if (!found) fail(ErrorCode::kIo, "no free port is found; name one with --master_port");
  return ntohs(name.sin_port);
}

}  // namespace

LaunchSettings launch_settings(const std::vector<std::string>& args) {
  LaunchSettings s;
  std::string hosts, host_file;
  size_t i = 0;
  for (; i < args.size() && args[i].starts_with("-"); ++i) {
    const size_t equals = args[i].find('=');
    std::string flag = args[i].substr(0, equals);
    std::replace(flag.begin() + std::min<long>(2, static_cast<long>(flag.size())), flag.end(), '-', '_');
    if (!launch_syntax().has(flag))
      fail(ErrorCode::kUsage, "lathe launch: unknown flag {}\n{}", flag, kLaunchUsage);
    if (equals == std::string::npos && i + 1 == args.size())
      fail(ErrorCode::kUsage, "{} wants a value\n{}", flag, kLaunchUsage);
    const std::string value = equals == std::string::npos ? args[++i] : args[i].substr(equals + 1);
    if (flag == "--hosts")
      hosts = value;
    else if (flag == "--hostfile")
      host_file = value;
    else
      (flag == "--master_port" ? s.port : s.ranks) = whole_number(flag, value, 1);
  }
  s.command.assign(args.begin() + static_cast<long>(i), args.end());
  if (!hosts.empty() && !host_file.empty())
    fail(ErrorCode::kUsage, "lathe launch: found --hosts and --hostfile, wants one of them");
  if (!hosts.empty()) s.hosts = parse_hosts(hosts, std::max(1, s.ranks));
  if (!host_file.empty()) s.hosts = read_host_file(host_file, std::max(1, s.ranks));
  if (!s.hosts.empty()) {
    int64_t all = 0;
    for (const LaunchHost& host : s.hosts) all += host.ranks;
    s.ranks = static_cast<int>(std::min<int64_t>(all, std::numeric_limits<int>::max()));
  }
  constexpr int kLastPort = 65535;
  if (s.port > kLastPort)
    fail(ErrorCode::kUsage, "--master_port: found {}, wants 1 to {}", s.port, kLastPort);
  if (s.ranks > kMostRanks)
    fail(ErrorCode::kUsage, "lathe launch: found {} processes, wants at most {}", s.ranks, kMostRanks);
  if (!s.command.empty() && s.command[0] != "glue" && s.command[0] != "qa")
    fail(ErrorCode::kUsage, "lathe launch: found the command '{}', wants glue or qa\n{}", s.command[0],
         kLaunchUsage);
  if (s.ranks == 0 || s.command.empty())
    fail(ErrorCode::kUsage, "lathe launch wants -n, --hosts or --hostfile and a command, glue or qa\n{}",
         kLaunchUsage);
  // Which ports are free on another machine is not known: torchrun's.
  constexpr int kUsualPort = 29500;
  if (s.port == 0) s.port = s.hosts.empty() ? free_port() : kUsualPort;
  return s;
}

Syntax launch_syntax() {
  return {kLaunchUsage,
          {{"-n", "N"},
           {"--nproc_per_node", "N"},
           {"--hosts", "A,B:2"},
           {"--hostfile", "FILE"},
           {"--master_port", "PORT"}},
          {"glue", "qa"}};
}

}  // namespace lathe
