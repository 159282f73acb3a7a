#include "lathe/app/commands/remote_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "lathe/core/environment.h"
#include "lathe/core/error.h"
#include "lathe/core/run_secret.h"
#include "lathe/io/json_file.h"
#include "lathe/report/shell_text.h"
#include "lathe/settings/argument_table.h"
#include "lathe/text/text.h"

extern char** environ;  // POSIX names it; no header of all systems does

namespace lathe {
namespace {

/// How the names begin of what Lathe and its libraries read.
constexpr auto kForwarded = std::to_array<std::string_view>(
    {"LATHE_", "MLX_", "HF_", "HUGGING_FACE_", "HUGGINGFACE_", "TRANSFORMERS_", "GLOO_", "NCCL_", "OMP_",
     "PYTORCH_", "SSL_CERT_", "CUDA_VISIBLE_DEVICES", "TENSORBOARD_LOGGING_DIR", "XDG_CACHE_HOME"});

bool is_forwarded(std::string_view name) {
  if (name == "LATHE_SSH" || name == kRunSecret || name == kRunSecretFile)
    return false;  // the launcher's own
  std::string small(name);
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (small.ends_with("_proxy")) return true;
  return std::any_of(kForwarded.begin(), kForwarded.end(),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

/// The shell's script: sets the variables; runs the command, and next to it a loop that passes signals on;
/// ends as the command does.
std::string script(const std::string& folder, const std::vector<std::string>& command) {
  return fmt::format(
      "while IFS= read -r line && [ -n \"$line\" ]; do export \"$line\"; done; "
      "cd {} || exit 1; exec 3<&0; "
      "{} </dev/null 3<&- & rank=$!; "
      "{{ while read -r name; do kill -s \"$name\" $rank; done; kill -s KILL $rank; }} <&3 >/dev/null 2>&1 & "
      "passing=$!; exec 3<&-; "
      "wait $rank; code=$?; kill $passing; exit $code",
      shell_text({folder}), shell_text(command));
}

/// A name that is not an option of ssh, and that has something after a "user@".
bool can_be_host(const LaunchHost& host) {
  return !host.name.substr(host.name.find('@') + 1).empty() && !host.name.starts_with('-');
}

}  // namespace

std::vector<LaunchHost> parse_hosts(const std::string& list, int ranks) {
  std::vector<LaunchHost> hosts;
  for (const std::string& item : split_at_commas(list)) {
    const size_t bracket = item.find(']');  // an IPv6 address has colons of its own
    const size_t colon = item.find(':', bracket == std::string::npos ? 0 : bracket);
    LaunchHost host{item.substr(0, colon), ranks, ""};
    const bool opened = item.find('[') < bracket;
    const bool broken = bracket == std::string::npos ? opened || colon != item.rfind(':')
                                                     : !opened || bracket + 1 != host.name.size();
    std::erase_if(host.name, [](char c) { return c == '[' || c == ']'; });
    if (broken || !can_be_host(host))
      fail(ErrorCode::kUsage,
           "--hosts: found \"{}\", expected names as a,b:2 (:2 for two processes), IPv6 addresses as "
           "[::1],[::2]:2",
           list);
    if (colon != std::string::npos)
      host.ranks = whole_number("--hosts " + host.name, item.substr(colon + 1), 1);
    hosts.push_back(std::move(host));
  }
  return hosts;
}

std::vector<LaunchHost> read_host_file(const std::string& path, int ranks) {
  const nlohmann::json read = read_json(real_file_system(), path);
  const nlohmann::json hosts = read.is_object() ? required<nlohmann::json>(read, "hosts", path) : read;
  if (!hosts.is_array() || hosts.empty())
    fail(ErrorCode::kInvalidData, "{}: found {} for the hosts, expected a list of one or more", path,
         hosts.type_name());
  std::vector<LaunchHost> found;
  for (const nlohmann::json& host : hosts) {
    const std::string where = fmt::format("{}: host {}", path, found.size());
    const auto ips = value_or<std::vector<std::string>>(host, "ips", {}, where);
    found.push_back({required<std::string>(host, "ssh", where), ranks, ips.empty() ? "" : ips[0]});
    if (!can_be_host(found.back()))
      fail(ErrorCode::kInvalidData, "{}: found \"{}\" for \"ssh\", expected a name as ssh takes it", where,
           found.back().name);
  }
  return found;
}

std::string address_of(const LaunchHost& host) {
  return host.ip.empty() ? host.name.substr(host.name.find('@') + 1) : host.ip;
}

RemoteRank remote_rank(const std::string& host, const std::string& folder,
                       const std::vector<std::string>& command,
                       const std::vector<std::pair<std::string, std::string>>& variables) {
  RemoteRank remote;
  const std::string ssh = environment("LATHE_SSH");
  std::string word;
  for (const char c : (ssh.empty() ? "ssh" : ssh) + " ") {
    if (c != ' ')
      word += c;
    else if (!word.empty())
      remote.words.push_back(std::exchange(word, ""));
  }
  remote.words.push_back(host);
  remote.words.push_back("exec sh -c " +
                         shell_text({script(folder, command)}));  // whatever shell the user has there
  for (const auto& [name, value] : variables)
    if (value.find('\n') == std::string::npos) remote.greeting += name + "=" + value + "\n";
  remote.greeting += "\n";
  return remote;
}

std::vector<std::pair<std::string, std::string>> forwarded_variables() {
  std::vector<std::pair<std::string, std::string>> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos && is_forwarded(text.substr(0, equals)))
      found.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

}  // namespace lathe
