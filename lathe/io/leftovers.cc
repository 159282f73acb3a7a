#include "lathe/io/leftovers.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>

namespace lathe {
namespace {

constexpr std::string_view kNotePrefix = ".tmp-lathe-";

std::string note_text(long pid) {
  return fmt::format(
      "Lathe: files and folders .tmp-*-{0}-* and *.replaced-{0}-* beside this file are of its process {0}.\n"
      "Where that is gone, the next training into this folder clears them.\n",
      pid);
}

/// A number as this program writes it: digits, no zero before them.
std::optional<long> number_in(std::string_view text) {
  long number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || fmt::to_string(number) != text || number < 0) return std::nullopt;
  return number;
}

/// A name of the form `<name>-<pid>-<n>`.
struct Owned {
  std::string name;
  long pid;
};
std::optional<Owned> owned(std::string_view text) {
  const size_t n = text.rfind('-');
  const size_t p = n == std::string_view::npos || n == 0 ? n : text.rfind('-', n - 1);
  if (p == std::string_view::npos || p == 0 || n == 0) return std::nullopt;
  const auto pid = number_in(text.substr(p + 1, n - p - 1));
  if (!pid || *pid == 0 || !number_in(text.substr(n + 1))) return std::nullopt;
  return Owned{std::string(text.substr(0, p)), *pid};
}

std::optional<long> pid_of_note(std::string_view name) {
  const auto pid = name.starts_with(kNotePrefix) ? number_in(name.substr(kNotePrefix.size())) : std::nullopt;
  return pid == 0 ? std::nullopt : pid;
}

/// `name` of it is what the folder was called.
std::optional<Owned> replaced(std::string_view name) {
  auto found = owned(name);
  if (!found || !found->name.ends_with(kReplacedSuffix) || found->name.size() == kReplacedSuffix.size())
    return std::nullopt;
  found->name.resize(found->name.size() - kReplacedSuffix.size());
  return found;
}

std::optional<Owned> temporary(std::string_view name) {
  return name.starts_with(kTemporaryPrefix) ? owned(name.substr(kTemporaryPrefix.size())) : std::nullopt;
}

/// A process that has ended can be signalled until its parent has waited for it.  Linux tells.
bool has_ended(FileSystem& fs, long pid) {
  Result<std::string> stat = fs.read(fmt::format("/proc/{}/stat", pid));
  if (!stat.ok()) return false;
  const std::string& text = stat.value();
  const size_t state = text.rfind(") ");  // after the program's name, which may hold anything
  return state != std::string::npos && std::string_view("ZX").find(text[state + 2]) != std::string_view::npos;
}

bool is_alive(FileSystem& fs, long pid) {
  return (kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM) && !has_ended(fs, pid);
}

/// Whether the file is such a note, or as much of one as its process has come to write.
bool is_note(FileSystem& fs, const std::string& path, long pid) {
  std::error_code error;
  const std::string text = note_text(pid);
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(path, error))) return false;
  if (std::filesystem::file_size(path, error) > text.size() || error) return false;
  Result<std::string> found = fs.read(path);
  return found.ok() && text.starts_with(found.value());
}

/// One clearing.
class Clearing {
 public:
  Clearing(FileSystem& fs, const std::string& folder) : fs_(fs), folder_(folder) {}

  Leftovers run() {
    if (!fs_.is_directory(folder_)) return found_;
    Result<std::vector<std::string>> names = fs_.list(folder_);
    found_.status = names.status();
    if (!names.ok()) return found_;
    for (const std::string& name : names.value())
      if (const auto pid = pid_of_note(name); pid && is_note(fs_, join_path(folder_, name), *pid))
        notes_.emplace_back(*pid, name);
    for (const std::string& name : names.value())
      if (found_.status.ok()) clear(name);
    for (const auto& [pid, name] : notes_)
      if (found_.status.ok() && is_gone(pid)) remove(name);
    return found_;
  }

 private:
  bool is_gone(long pid) const { return pid == getpid() || !is_alive(fs_, pid); }

  void clear(const std::string& name) {
    if (pid_of_note(name)) return;
    const auto of_replaced = replaced(name);
    const auto of = of_replaced ? of_replaced : temporary(name);
    if (!of) return;
    const bool proven =
        std::any_of(notes_.begin(), notes_.end(), [&](const auto& note) { return note.first == of->pid; });
    if (!proven && !is_gone(of->pid)) return;
    if (!proven)
      found_.unproven.push_back(name);
    else if (is_gone(of->pid) && of_replaced && !fs_.exists(join_path(folder_, of->name)))
      give_back(name, of->name);
    else if (is_gone(of->pid))
      remove(name);
  }

  void give_back(const std::string& name, const std::string& original) {
    found_.status = fs_.rename(join_path(folder_, name), join_path(folder_, original));
    if (found_.status.ok()) found_.status = fs_.sync(folder_);
    if (found_.status.ok()) found_.renamed.push_back(original);
  }

  void remove(const std::string& name) {
    found_.status = fs_.remove_all(join_path(folder_, name));
    if (found_.status.ok()) found_.removed.push_back(name);
  }

  FileSystem& fs_;
  const std::string& folder_;
  std::vector<std::pair<long, std::string>> notes_;  ///< by process
  Leftovers found_;
};

}  // namespace

LeftoversNote::LeftoversNote(FileSystem& fs, const std::string& folder)
    : fs_(fs), path_(join_path(folder, fmt::format("{}{}", kNotePrefix, getpid()))) {
  std::error_code error;
  const bool taken =
      std::filesystem::symlink_status(path_, error).type() != std::filesystem::file_type::not_found;
  if (taken || !fs_.is_directory(folder)) {
    path_.clear();
    return;
  }
  Status status = fs_.write(path_, [](const Sink& sink) { return sink(as_bytes(note_text(getpid()))); });
  if (status.ok()) status = fs_.sync(folder);
  if (!status.ok()) static_cast<void>(fs_.remove_all(path_));
}

LeftoversNote::~LeftoversNote() {
  if (!path_.empty()) static_cast<void>(fs_.remove_all(path_));
}

Leftovers clear_leftovers(FileSystem& fs, const std::string& folder) { return Clearing(fs, folder).run(); }

bool is_leftover_name(std::string_view name) { return pid_of_note(name) || temporary(name); }

}  // namespace lathe
