#include "lathe/app/terminal/hub_terminal.h"

#include <fmt/format.h>

#include <memory>

#include "lathe/app/terminal/signals.h"

namespace lathe {
namespace {

/// One file after the other; a bar only for what takes a while.
class FileBars {
 public:
  FileBars(Terminal& terminal, std::string done) : terminal_(terminal), done_(std::move(done)) {}
  ~FileBars() { end(); }
  FileBars(const FileBars&) = delete;
  FileBars& operator=(const FileBars&) = delete;

  void show(const std::string& file, uint64_t done, uint64_t total) {
    if (file != file_) {
      end();
      file_ = file;
      terminal_.begin_progress(file, static_cast<int64_t>(total), static_cast<int64_t>(done),
                               ProgressUnit::kBytes);
      open_ = true;
    }
    terminal_.update_progress(static_cast<int64_t>(done));
    if (done != total) return;
    end();
    file_.clear();
    terminal_.log(LogLevel::kInfo,
                  fmt::format("{} {} ({})", done_, file, byte_text(static_cast<double>(total))));
  }

 private:
  void end() {
    if (open_) terminal_.end_progress();
    open_ = false;
  }

  Terminal& terminal_;
  std::string done_, file_;
  bool open_ = false;
};

}  // namespace

HubSettings hub_on(Terminal& terminal, const std::optional<std::string>& token, const std::string& verb) {
  HubSettings settings = hub_settings();
  if (token) settings.token = hub_token(*token);
  settings.message = [&terminal](const std::string& line) { terminal.log(LogLevel::kWarning, line); };
  settings.note = [&terminal](const std::string& line) { terminal.log(LogLevel::kInfo, line); };
  settings.progress = [bars = std::make_shared<FileBars>(terminal, verb)](const std::string& file,
                                                                          uint64_t done, uint64_t total) {
    bars->show(file, done, total);
  };
  settings.should_stop = [] { return stop_signal() != 0; };
  settings.while_asking = [] { return std::make_shared<StopSignals>(); };
  return settings;
}

std::string named_model(const std::string& name_or_path, const ModelNeed& need) {
  Terminal terminal(LogLevel::kInfo, true);
  return fetch_model(real_file_system(), name_or_path, "main", "", need, hub_on(terminal));
}

}  // namespace lathe
