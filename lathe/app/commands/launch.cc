// lathe launch: starts the ranks of a run, as torchrun does: on this machine, or through ssh on several.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "lathe/app/commands/launch_settings.h"
#include "lathe/app/commands/remote_rank.h"
#include "lathe/app/terminal/signals.h"
#include "lathe/app/terminal/terminal.h"
#include "lathe/core/error.h"
#include "lathe/core/program_path.h"
#include "lathe/core/run_secret.h"
#include "lathe/train/checkpoint.h"

#if defined(__linux__)
#include <sys/prctl.h>
#endif

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;

// When a rank has failed the others notice within seconds; those that do not are asked, then made to end.
constexpr std::chrono::seconds kAsk{15}, kEnd{25};
// Where a rank never came there is nothing to notice.
constexpr std::chrono::seconds kAskAlone{0}, kEndAlone{5};

/// What the run of these words does; nothing where they are no valid command line.
struct Intent {
  bool only_shows = false;    ///< its flags or its settings
  std::string output_folder;  ///< of a training
};
Intent intent_of(const std::vector<std::string>& command) {
  const std::vector<std::string> flags(command.begin() + 1, command.end());
  const auto intent = [](const auto& line) {
    return Intent{line.help || line.training.print_config,
                  line.training.do_train ? line.training.output_dir.value_or("") : ""};
  };
  try {
    if (command[0] == "qa") return intent(parse_command_line<QaArguments>(flags));
    if (command[0] == "ner") return intent(parse_command_line<NerArguments>(flags));
    if (command[0] == "mlm") return intent(parse_command_line<MlmArguments>(flags));
    if (command[0] == "clm") return intent(parse_command_line<ClmArguments>(flags));
    if (command[0] == "swag") return intent(parse_command_line<SwagArguments>(flags));
    if (command[0] == "embed") return intent(parse_command_line<EmbedArguments>(flags));
    if (command[0] == "rerank") return intent(parse_command_line<RerankArguments>(flags));
    return intent(parse_command_line<GlueArguments>(flags));
  } catch (const Error&) {
    return {};
  }
}

volatile sig_atomic_t pause_asked = 0;  // by Ctrl-Z

void on_pause(int) { pause_asked = 1; }

/// Unless it is ignored, as where there is no job control.
void catch_pause() {
  struct sigaction before = {};
  sigaction(SIGTSTP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) signal(SIGTSTP, on_pause);
}

/// A process of the run, and what it says on the pipe that all but rank 0 write to.
struct Rank {
  pid_t pid = -1;  ///< −1: it has ended
  int said = -1;
  int told = -1;     ///< the pipe to a rank on another machine, which passes signals on
  std::string line;  ///< of which the end has not come
};

class Launch {
 public:
  explicit Launch(LaunchSettings settings) : settings_(std::move(settings)), path_(program_path()) {
    if (path_.empty()) fail(ErrorCode::kInternal, "the path of this program is not known");
    // The ranks go on where nobody reads what they say; an ssh that has ended is found by waiting for it.
    signal(SIGPIPE, SIG_IGN);
  }

  int run() {
    if (intent_of(settings_.command).only_shows) {
      signal(SIGPIPE, SIG_DFL);
      run_words(words());
    }
    const StopSignals signals;
    catch_pause();
    for (int rank = 0; rank < settings_.ranks; ++rank) ranks_.push_back(start(rank));
    while (running() > 0) {
      hear(kPause_ms);
      reap();
      forward_stop();
      if (pause_asked != 0) pause();
      if (failed_) end_others();
    }
    hear(0);
    if (!failed_) return 0;
    if (stop_signal() == 0)
      print_error(fmt::format("error: rank {} {}{}\n", failed_->rank, failed_->how, where_to_go_on()));
    else if (failed_->by_signal)  // else it could not save
      end_by_signal(stop_signal());
    return failed_->code;
  }

 private:
  static constexpr int kPause_ms = 20;
  static constexpr int kBySignal = 128,
                       kBySsh = 255;  // exit codes: a shell's for signal n, less n; ssh's own
  struct Failure {
    int rank, code;
    bool by_signal;
    std::string how;
    Clock::time_point when;
  };

  Rank start(int rank) {
    std::optional<RemoteRank> remote;
    if (!settings_.hosts.empty()) remote = remote_of(rank);
    int pipe_ends[2] = {-1, -1}, told[2] = {-1, -1};
    if ((rank > 0 && pipe(pipe_ends) != 0) || (remote && pipe(told) != 0))
      fail(ErrorCode::kIo, "a pipe cannot be made");
    if (remote) fcntl(told[1], F_SETFD, FD_CLOEXEC);
    const pid_t parent = getpid();
    Rank started;
    started.pid = fork();
    if (started.pid < 0) fail(ErrorCode::kIo, "a process cannot be started: {}", std::strerror(errno));
    if (started.pid == 0) {
      leave_behind(pipe_ends, told, parent);
      if (remote)
        run_words(remote->words);
      else
        become(rank);
    }
    if (rank > 0) close(pipe_ends[1]);
    if (remote) {
      close(told[0]);
      started.told = told[1];
      tell(started, remote->greeting);
    }
    started.said = pipe_ends[0];
    if (started.said >= 0) fcntl(started.said, F_SETFL, O_NONBLOCK), fcntl(started.said, F_SETFD, FD_CLOEXEC);
    return started;
  }

  /// In the child.  A process group of its own: Ctrl-C comes through the launcher, once.  To the terminal
  /// that is one in the background, which `stty tostop` would stop when it writes.
  static void leave_behind(const int* said, const int* told, pid_t parent) {
    setpgid(0, 0);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGTTOU, SIG_IGN);
#if defined(__linux__)
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
#else
    static_cast<void>(parent);
#endif
    if (said[1] >= 0) {
      dup2(said[1], STDOUT_FILENO);
      dup2(said[1], STDERR_FILENO);
      close(said[0]);
      close(said[1]);
    }
    if (told[0] >= 0) {
      dup2(told[0], STDIN_FILENO);
      close(told[0]);
    }
  }

  /// In the child.
  [[noreturn]] void become(int rank) {
    for (const auto& [name, value] : variables(rank, rank, settings_.ranks, "127.0.0.1"))
      setenv(name.c_str(), value.c_str(), 1);
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    run_words(words());
  }

  /// Of one rank.
  std::vector<std::string> words() const {
    std::vector<std::string> all = settings_.command;
    all.insert(all.begin(), path_);
    return all;
  }

  [[noreturn]] static void run_words(const std::vector<std::string>& words) {
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    execvp(pointers[0], pointers.data());
    constexpr int kNotFound = 127;  // a shell's exit code for it
    print_error(fmt::format("error: {}: {}\n", words[0], std::strerror(errno)));
    _exit(kNotFound);
  }

  /// torchrun's, and the secret of the run.
  std::vector<std::pair<std::string, std::string>> variables(int rank, int local_rank, int local_size,
                                                             const std::string& address) const {
    return {{"RANK", std::to_string(rank)},
            {"LOCAL_RANK", std::to_string(local_rank)},
            {"WORLD_SIZE", std::to_string(settings_.ranks)},
            {"LOCAL_WORLD_SIZE", std::to_string(local_size)},
            {"MASTER_ADDR", address},
            {"MASTER_PORT", std::to_string(settings_.port)},
            {"TORCHELASTIC_RUN_ID", run_},
            {kRunSecret, secret_}};
  }

  /// The host that a rank runs on, and which of the host's ranks it is.
  std::pair<const LaunchHost*, int> place_of(int rank) const {
    for (const LaunchHost& host : settings_.hosts) {
      if (rank < host.ranks) return {&host, rank};
      rank -= host.ranks;
    }
    fail(ErrorCode::kInternal, "rank {} has no host", rank);
  }

  /// The program, the folder and the data are at the same place on each host, which may be named twice.
  RemoteRank remote_of(int rank) const {
    auto [host, local_rank] = place_of(rank);
    int local_size = 0;
    for (const LaunchHost& other : settings_.hosts) {
      if (other.name != host->name) continue;
      if (&other < host) local_rank += other.ranks;
      local_size += other.ranks;
    }
    auto all = forwarded_variables();
    for (auto& own : variables(rank, local_rank, local_size, address_of(settings_.hosts[0])))
      all.push_back(std::move(own));
    return remote_rank(host->name, std::filesystem::current_path().string(), words(), all);
  }

  static void tell(const Rank& rank, const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      const ssize_t written = write(rank.told, text.data() + at, text.size() - at);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;  // it has ended
      at += static_cast<size_t>(written);
    }
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
    for (size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
      const bool returns = end > at && text[end - 1] == '\r';  // as ssh ends what it says itself
      print_error(fmt::format("[rank {}] {}\n", r, text.substr(at, end - at - (returns ? 1 : 0))));
    }
    text.erase(0, at);
  }

  /// A rank that notices another's end says so and ends with an exit code. One that a signal ended, of which
  /// none was sent from here, was therefore the first, however late the system reports it: the connections of
  /// a process that is killed close before it can be waited for.
  void reap() {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      int status = 0;
      if (ranks_[r].pid < 0 || waitpid(ranks_[r].pid, &status, WNOHANG) != ranks_[r].pid) continue;
      ranks_[r].pid = -1;
      if (ranks_[r].told >= 0) close(std::exchange(ranks_[r].told, -1));
      const int code = WIFSIGNALED(status) ? kBySignal + WTERMSIG(status) : WEXITSTATUS(status);
      // The shell on another machine gives a signal's number so.
      const bool by_signal =
          WIFSIGNALED(status) || (!settings_.hosts.empty() && code > kBySignal && code < kBySsh);
      const bool cause = !failed_ || (by_signal && !failed_->by_signal && !sent_);
      if (code == 0 || !cause) continue;
      const auto when = failed_ ? failed_->when : Clock::now();
      failed_ = {static_cast<int>(r), code, by_signal, how_it_ended(static_cast<int>(r), code, by_signal),
                 when};
    }
  }

  std::string how_it_ended(int rank, int code, bool by_signal) const {
    std::string how =
        by_signal ? fmt::format("ended by signal {} ({})", code - kBySignal, strsignal(code - kBySignal))
                  : fmt::format("ended with exit code {}", code);
    if (settings_.hosts.empty()) return how;
    how += " on " + place_of(rank).first->name;
    if (code == kBySsh) how += " (ssh's own code: it could not connect, or the connection broke)";
    return how;
  }

  /// To a rank elsewhere TERM goes by its pipe; where its ssh is made to end, it ends, too.
  void send(int signal) {
    sent_ = true;
    send(signal, signal == SIGKILL ? "" : "TERM");
  }

  /// name: of what a rank elsewhere gets; empty: its ssh gets the signal.
  void send(int signal, const std::string& name) {
    for (const Rank& rank : ranks_) {
      if (rank.pid < 0) continue;
      if (rank.told >= 0 && !name.empty())
        tell(rank, name + "\n");
      else
        kill(rank.pid, signal);
    }
  }

  /// Only this process gets Ctrl-Z.  The ranks stop before it, and continue with it.
  void pause() {
    pause_asked = 0;
    send(SIGSTOP, "STOP");
    signal(SIGTSTP, SIG_DFL);
    raise(SIGTSTP);  // comes back when the shell lets it go on
    catch_pause();
    send(SIGCONT, "CONT");
  }

  void forward_stop() {
    if (stop_signal() == 0 || forwarded_) return;
    forwarded_ = true;
    send(stop_signal());
  }

  void end_others() {
    const auto since = Clock::now() - failed_->when;
    const bool alone = failed_->code == kBySsh && !settings_.hosts.empty();
    if (since > (alone ? kEndAlone : kEnd)) {
      send(SIGKILL);
    } else if (since > (alone ? kAskAlone : kAsk) && !asked_) {
      asked_ = true;
      send(SIGTERM);
    }
  }

  std::string where_to_go_on() const {
    const std::string folder = intent_of(settings_.command).output_folder;
    if (folder.empty()) return "";  // nothing is lost
    const std::string last = checkpoint_to_resume(real_file_system(), folder);
    return last.empty() ? "; there is no checkpoint yet" : "; last whole checkpoint: " + last;
  }

  LaunchSettings settings_;
  std::string path_;
  std::string run_ = new_run_secret().substr(0, 8);  ///< its name, no other run's
  std::string secret_ = new_run_secret();            ///< on no command line, in no log
  std::vector<Rank> ranks_;
  std::optional<Failure> failed_;
  bool forwarded_ = false, asked_ = false;
  bool sent_ = false;  ///< a signal to the ranks
};

int launch(LaunchFlags& flags, const Call& call) { return Launch(launch_settings(flags, call)).run(); }

}  // namespace

Command launch_command() {
  using L = LaunchFlags;
  return make_command<L>(
      {.name = "launch",
       .summary = "train with several processes: lathe launch -n 2 glue …, --hosts a,b on several machines",
       .synopsis =
           "-n N [--master_port P] COMMAND [flags]\n--hosts A,B:2 [-n N] [--master_port P] COMMAND [flags]\n"
           "--hostfile FILE [--master_port P] COMMAND [flags]",
       .details =
           "Trains with several processes: N on this machine, one per GPU or sharing its cores; through ssh "
           "on several hosts; or on the hosts of a file.  COMMAND is glue, classify, qa, ner, mlm, swag, "
           "embed or rerank.",
       .words = Words::kCommand,
       .choices = {"glue", "classify", "qa", "ner", "mlm", "clm", "swag", "embed", "rerank"}},
      {{"nproc_per_node",
        &L::ranks,
        "Processes of this machine; with --hosts of each host that gives no number, 1 if not given.",
        {.low = 1, .value = "N", .letter = "n"}},
       {"hosts",
        &L::hosts,
        "Hosts, each with a number of processes after its name if it is not N.",
        {.value = "A,B:2"}},
       {"hostfile", &L::host_file, "A file of hosts in the form of MLX's launcher.", {.value = "FILE"}},
       {"master_port",
        &L::port,
        "Where the processes meet; if not given a free one, with several hosts 29500.",
        {.low = 1, .high = 65535, .value = "PORT"}}},
      launch);
}

}  // namespace lathe
