#pragma once
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/app/terminal/progress_bar.h"
#include "lathe/settings/training_arguments.h"
#include "lathe/train/log_format.h"

namespace lathe {

/// The streams and the surroundings of a Terminal; tests replace them.
struct TerminalPort {
  /// stdout and stderr, flushed.  If the process's stdout is a terminal, it gets visible_text.
  std::function<void(std::string_view)> out, err;
  std::function<int()> width;   ///< columns of stderr
  std::function<double()> now;  ///< seconds
  bool unicode = false;         ///< the locale is UTF-8
  bool interactive = false;     ///< stderr is a terminal that moves its cursor
};
/// The process's own streams.
TerminalPort standard_port();
/// Text for stdout: visible_text if stdout is a terminal, else the text unchanged.
std::string text_for_stdout(std::string_view text);
/// Writes to stderr if there is no Terminal, as visible_text.  Write errors are ignored, because nobody could
/// be told.
void print_error(std::string_view text);

/// All output of a program while it runs: results and log dictionaries on stdout, messages on stderr and
/// progress there: if stderr is a terminal, a bar below them, else a message every 30 seconds.  Every method
/// may be called from any thread.  Text written after its destructor begins a new line.
class Terminal {
 public:
  /// level: messages below it are dropped.  progress: false turns the bar, or its messages, off.
  Terminal(LogLevel level, bool progress, TerminalPort port = standard_port());
  /// As --log_level and --disable_tqdm say.  Like Hugging Face, it shows no bar with --log_level error or
  /// critical.
  explicit Terminal(const TrainingArguments& args, TerminalPort port = standard_port());
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// "[INFO] line" on stderr, as visible_text.
  void log(LogLevel level, std::string_view line);
  /// The same as a LogSink for the library.  The terminal must outlive it.
  LogSink sink();
  /// Text on stdout; a missing final newline is added.
  void print(std::string_view text);

  /// A bar under the text.  A bar that begins inside another (evaluation inside training) hides it and is
  /// wiped at its end; the outermost stays.
  void begin_progress(std::string label, int64_t total, int64_t done = 0,
                      ProgressUnit unit = ProgressUnit::kSteps);
  void update_progress(int64_t done, std::optional<double> loss = {});
  void end_progress();

 private:
  bool draws() const { return port_.interactive && !bars_.empty(); }
  void write_log(LogLevel level, std::string_view line);
  void wipe();
  void draw();

  LogLevel level_;
  bool progress_;
  TerminalPort port_;
  std::mutex mutex_;
  std::vector<ProgressBar> bars_;
  double said_ = 0;  ///< when the last message about progress came, or the outermost bar began
};

}  // namespace lathe
