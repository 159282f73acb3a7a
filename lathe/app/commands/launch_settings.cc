#include "lathe/app/commands/launch_settings.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "lathe/core/error.h"

namespace lathe {
namespace {

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

LaunchSettings launch_settings(const LaunchFlags& flags, const Call& call) {
  LaunchSettings s{.ranks = flags.ranks.value_or(0), .port = flags.port.value_or(0), .command = call.words};
  const std::string hosts = flags.hosts.value_or(""), host_file = flags.host_file.value_or("");
  if (!hosts.empty() && !host_file.empty()) call.refuse("found --hosts and --hostfile, expected one of them");
  if (!hosts.empty()) s.hosts = parse_hosts(hosts, std::max(1, s.ranks));
  if (!host_file.empty()) s.hosts = read_host_file(host_file, std::max(1, s.ranks));
  if (!s.hosts.empty()) {
    int64_t all = 0;
    for (const LaunchHost& host : s.hosts) all += host.ranks;
    s.ranks = static_cast<int>(std::min<int64_t>(all, std::numeric_limits<int>::max()));
  }
  if (s.ranks > kMostRanks)
    call.refuse(fmt::format("found {} processes, expected at most {}", s.ranks, kMostRanks));
  const std::vector<std::string> scripts = script_commands();
  if (!s.command.empty() && std::find(scripts.begin(), scripts.end(), s.command[0]) == scripts.end())
    call.refuse(
        fmt::format("found the command '{}', expected one of {}", s.command[0], fmt::join(scripts, ", ")));
  if (s.ranks == 0 || s.command.empty())
    call.refuse(
        "expected -n, --hosts or --hostfile and a command: glue, classify, qa, ner, mlm, clm, swag, embed or "
        "rerank");
  // Which ports are free on another machine is not known: torchrun's.
  constexpr int kUsualPort = 29500;
  if (s.port == 0) s.port = s.hosts.empty() ? free_port() : kUsualPort;
  return s;
}

}  // namespace lathe
