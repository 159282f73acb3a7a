#include "lathe/app/terminal/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>

#include "lathe/app/terminal/signals.h"
#include "lathe/core/environment.h"
#include "lathe/text/visible_text.h"

namespace lathe {
namespace {

constexpr double kSayEvery = 30;  // seconds between messages about progress

bool locale_is_utf8() {
  for (const auto* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = environment(name);
    if (!value.empty())
      return value.find("UTF-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

int columns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

/// In pieces for which a pipe has room where it says that it has some.  What nobody reads is lost once a stop
/// is asked for.
void write(std::FILE* stream, std::string_view text) {
  const int descriptor = fileno(stream);
  std::fflush(stream);
  while (!text.empty() && wait_to_write(descriptor)) {
    const ssize_t bytes = ::write(descriptor, text.data(), std::min(text.size(), size_t{PIPE_BUF}));
    if (bytes >= 0) {
      text.remove_prefix(static_cast<size_t>(bytes));
    } else if (errno != EINTR &&
               errno != EAGAIN) {  // the stream is to know of the error, for the program's end
      std::fwrite(text.data(), 1, text.size(), stream);
      std::fflush(stream);
      return;
    }
  }
}

bool bar_wanted(const TrainingArguments& args) {
  return !args.disable_tqdm.value_or(log_level_from(args.log_level) > LogLevel::kWarning);
}

}  // namespace

TerminalPort standard_port() {
  return {
      .out = [](std::string_view text) { write(stdout, text_for_stdout(text)); },
      .err = [](std::string_view text) { write(stderr, text); },
      .width = columns,
      .now =
          [] {
            return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
          },
      .unicode = locale_is_utf8(),
      .interactive = isatty(STDERR_FILENO) == 1 && environment("TERM") != "dumb"};
}

std::string text_for_stdout(std::string_view text) {
  static const bool shown = isatty(STDOUT_FILENO) == 1;
  return shown ? visible_text(text) : std::string(text);
}

void print_error(std::string_view text) { write(stderr, visible_text(text)); }

Terminal::Terminal(LogLevel level, bool progress, TerminalPort port)
    : level_(level), progress_(progress), port_(std::move(port)) {}

Terminal::Terminal(const TrainingArguments& args, TerminalPort port)
    : Terminal(log_level_from(args.log_level), bar_wanted(args), std::move(port)) {}

Terminal::~Terminal() {
  if (draws()) port_.err("\n");
}

void Terminal::log(LogLevel level, std::string_view line) {
  if (level < level_) return;
  const std::lock_guard lock(mutex_);
  write_log(level, line);
}

void Terminal::write_log(LogLevel level, std::string_view line) {
  wipe();
  port_.err(fmt::format("[{}] {}\n", name_of(level), visible_text(line)));
  draw();
}

LogSink Terminal::sink() {
  return [this](LogLevel level, const std::string& line) { log(level, line); };
}

void Terminal::print(std::string_view text) {
  const std::lock_guard lock(mutex_);
  wipe();
  port_.out(text.ends_with('\n') ? std::string(text) : std::string(text) + "\n");
  draw();
}

void Terminal::begin_progress(std::string label, int64_t total, int64_t done, ProgressUnit unit) {
  if (!progress_) return;
  const std::lock_guard lock(mutex_);
  if (bars_.empty()) said_ = port_.now();
  bars_.emplace_back(visible_line(label), total, done, port_.now(), unit);
  draw();
}

void Terminal::update_progress(int64_t done, std::optional<double> loss) {
  if (!progress_) return;
  const std::lock_guard lock(mutex_);
  if (bars_.empty()) return;
  const double now = port_.now();
  if (!bars_.back().update(done, loss, now)) return;
  draw();
  if (port_.interactive || level_ > LogLevel::kInfo || now - said_ < kSayEvery) return;
  said_ = now;
  write_log(LogLevel::kInfo, bars_.back().message(now));
}

void Terminal::end_progress() {
  if (!progress_) return;
  const std::lock_guard lock(mutex_);
  if (bars_.empty()) return;
  draw();
  if (draws() && bars_.size() == 1) port_.err("\n");
  bars_.pop_back();
  draw();
}

void Terminal::wipe() {
  if (draws()) port_.err("\r\x1b[K");
}

// One column stays free: a line that fills the last one makes some terminals wrap.
void Terminal::draw() {
  if (!draws()) return;
  port_.err("\r" + bars_.back().line(port_.width() - 1, port_.unicode, port_.now()) + "\x1b[K");
}

}  // namespace lathe
