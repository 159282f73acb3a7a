// lathe launch: starts the ranks of a run on this machine, as torchrun does.
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "lathe/app/argument_parser.h"
#include "lathe/app/commands.h"
#include "lathe/app/options.h"
#include "lathe/app/signals.h"
#include "lathe/core/error.h"
#include "lathe/core/program_path.h"
#include "lathe/train/checkpoint.h"

#if defined(__linux__)
#include <sys/prctl.h>
#endif

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kUsage =
    "lathe launch -n N [--master_port P] glue|qa [flags]: trains with N processes on this machine, one per "
    "GPU "
    "or sharing its cores\n";
// When a rank has failed the others notice within seconds; those that do not are asked, then made to end.
constexpr std::chrono::seconds kAsk{15}, kEnd{25};

struct Settings {
  int ranks = 0, port = 0;
  std::vector<std::string> command;  ///< "glue" and its flags
};

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

Settings parse(const std::vector<std::string>& args) {
  Settings s;
  size_t i = 0;
  for (; i < args.size() && args[i].starts_with("-"); ++i) {
    const size_t equals = args[i].find('=');
    std::string flag = args[i].substr(0, equals);
    std::replace(flag.begin() + 2, flag.end(), '-', '_');
    const bool count = flag != "--master_port";
    if (!launch_syntax().has(flag))
      fail(ErrorCode::kUsage, "lathe launch: unknown flag {}\n{}", flag, kUsage);
    if (equals == std::string::npos && i + 1 == args.size())
      fail(ErrorCode::kUsage, "{} wants a value\n{}", flag, kUsage);
    const std::string value = equals == std::string::npos ? args[++i] : args[i].substr(equals + 1);
    (count ? s.ranks : s.port) = whole_number(flag, value, 1);
  }
  s.command.assign(args.begin() + static_cast<long>(i), args.end());
  if (s.ranks == 0 || s.command.empty() || (s.command[0] != "glue" && s.command[0] != "qa"))
    fail(ErrorCode::kUsage, "lathe launch wants -n and a command, glue or qa\n{}", kUsage);
  if (s.port == 0) s.port = free_port();
  return s;
}

/// Where the run of these words writes; empty where they are no valid command line.
std::string output_folder(const std::vector<std::string>& command) {
  const std::vector<std::string> flags(command.begin() + 1, command.end());
  try {
    const TrainingArguments training = command[0] == "glue"
                                           ? parse_command_line<GlueArguments>(flags).training
                                           : parse_command_line<QaArguments>(flags).training;
    return training.output_dir.value_or("trainer_output");
  } catch (const Error&) {
    return "";
  }
}

/// A process of the run, and what it says on the pipe that all but rank 0 write to.
struct Rank {
  pid_t pid = -1;  ///< −1: it has ended
  int said = -1;
  std::string line;  ///< of which the end has not come
};

class Launch {
 public:
  explicit Launch(Settings settings) : settings_(std::move(settings)), path_(program_path()) {
    if (path_.empty()) fail(ErrorCode::kInternal, "the path of this program is not known");
  }

  int run() {
    for (int rank = 0; rank < settings_.ranks; ++rank) ranks_.push_back(start(rank));
    while (running() > 0) {
      hear(kPause_ms);
      reap();
      forward_stop();
      if (failed_) end_others();
    }
    hear(0);
    if (!failed_) return 0;
    if (stop_signal() == 0)
      fmt::print(stderr, "error: rank {} {}; {}\n", failed_->rank, failed_->how, where_to_go_on());
    return failed_->code;
  }

 private:
  static constexpr int kPause_ms = 20;
  struct Failure {
    int rank, code;
    std::string how;
    Clock::time_point when;
  };

  Rank start(int rank) {
    int pipe_ends[2] = {-1, -1};
    if (rank > 0 && pipe(pipe_ends) != 0) fail(ErrorCode::kIo, "a pipe cannot be made");
    const pid_t parent = getpid();
    Rank started;
    started.pid = fork();
    if (started.pid < 0) fail(ErrorCode::kIo, "a process cannot be started: {}", std::strerror(errno));
    if (started.pid == 0) become(rank, pipe_ends, parent);
    if (rank > 0) close(pipe_ends[1]);
    started.said = pipe_ends[0];
    if (started.said >= 0) fcntl(started.said, F_SETFL, O_NONBLOCK), fcntl(started.said, F_SETFD, FD_CLOEXEC);
    return started;
  }

  /// In the child.  A process group of its own: Ctrl-C comes through the launcher, once.
  [[noreturn]] void become(int rank, const int* pipe_ends, pid_t parent) {
    setpgid(0, 0);
#if defined(__linux__)
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
#else
    static_cast<void>(parent);
#endif
    if (rank > 0) {
      dup2(pipe_ends[1], STDOUT_FILENO);
      dup2(pipe_ends[1], STDERR_FILENO);
      close(pipe_ends[0]);
      close(pipe_ends[1]);
    }
    const auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
    set("RANK", std::to_string(rank));
    set("LOCAL_RANK", std::to_string(rank));
    set("WORLD_SIZE", std::to_string(settings_.ranks));
    set("LOCAL_WORLD_SIZE", std::to_string(settings_.ranks));
    set("MASTER_ADDR", "127.0.0.1");
    set("MASTER_PORT", std::to_string(settings_.port));
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    std::vector<char*> words = {const_cast<char*>("lathe")};
    for (const std::string& word : settings_.command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execv(path_.c_str(), words.data());
    _exit(127);
  }

  int running() const {
    int count = 0;
    for (const Rank& rank : ranks_) count += rank.pid >= 0;
    return count;
  }

  /// Passes on whole lines of all ranks but 0, which writes by itself.
  void hear(int wait_ms) {
    std::vector<pollfd> wanted;
    for (const Rank& rank : ranks_) wanted.push_back({rank.said, POLLIN, 0});
    poll(wanted.data(), wanted.size(), wait_ms);
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (wanted[r].revents == 0) continue;
      std::array<char, 4096> piece;
      ssize_t bytes = 0;
      while ((bytes = read(ranks_[r].said, piece.data(), piece.size())) > 0)
        ranks_[r].line.append(piece.data(), static_cast<size_t>(bytes));
      const bool closed = bytes == 0;
      if (closed && !ranks_[r].line.empty() && !ranks_[r].line.ends_with('\n')) ranks_[r].line += '\n';
      pass_on(static_cast<int>(r));
      if (!closed) continue;
      close(ranks_[r].said);
      ranks_[r].said = -1;
    }
  }

  void pass_on(int r) {
    std::string& text = ranks_[static_cast<size_t>(r)].line;
    size_t at = 0;
    for (size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
      fmt::print(stderr, "[rank {}] {}\n", r, text.substr(at, end - at));
    text.erase(0, at);
    std::fflush(stderr);
  }

  /// Of ranks that failed within one pause, one that a signal ended was the first: the others noticed it.
  void reap() {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      int status = 0;
      if (ranks_[r].pid < 0 || waitpid(ranks_[r].pid, &status, WNOHANG) != ranks_[r].pid) continue;
      ranks_[r].pid = -1;
      constexpr int kBySignal = 128;  // a shell's exit code for it
      const auto now = Clock::now();
      const bool together =
          failed_ && failed_->code < kBySignal && now - failed_->when < std::chrono::milliseconds(kPause_ms);
      if (WIFSIGNALED(status) && (!failed_ || together))
        failed_ = {static_cast<int>(r), kBySignal + WTERMSIG(status),
                   fmt::format("ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status))),
                   now};
      else if (WIFEXITED(status) && WEXITSTATUS(status) != 0 && !failed_)
        failed_ = {static_cast<int>(r), WEXITSTATUS(status),
                   fmt::format("ended with exit code {}", WEXITSTATUS(status)), now};
    }
  }

  void send(int signal) {
    for (const Rank& rank : ranks_)
      if (rank.pid >= 0) kill(rank.pid, signal);
  }

  void forward_stop() {
    if (stop_signal() == 0 || forwarded_) return;
    forwarded_ = true;
    send(stop_signal());
  }

  void end_others() {
    const auto since = Clock::now() - failed_->when;
    if (since > kEnd) {
      send(SIGKILL);
    } else if (since > kAsk && !asked_) {
      asked_ = true;
      send(SIGTERM);
    }
  }

  std::string where_to_go_on() const {
    const std::string folder = output_folder(settings_.command);
    const std::string last = folder.empty() ? "" : last_checkpoint(real_file_system(), folder);
    return last.empty() ? "there is no checkpoint yet" : "last whole checkpoint: " + last;
  }

  Settings settings_;
  std::string path_;
  std::vector<Rank> ranks_;
  std::optional<Failure> failed_;
  bool forwarded_ = false, asked_ = false;
};

}  // namespace

Syntax launch_syntax() {
  return {kUsage, {{"-n", "N"}, {"--nproc_per_node", "N"}, {"--master_port", "PORT"}}, {"glue", "qa"}};
}

int run_launch(const std::vector<std::string>& args) {
  if (!args.empty() && (args[0] == "--help" || args[0] == "-h")) {
    fmt::print("{}", kUsage);
    return 0;
  }
  return Launch(parse(args)).run();
}

}  // namespace lathe
