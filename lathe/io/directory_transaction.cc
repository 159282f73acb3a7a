#include "lathe/io/directory_transaction.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <vector>

namespace lathe {
namespace {

constexpr std::string_view kReplacedSuffix = ".replaced";

/// Syncs every file and folder below, then the folder itself.
Status sync_tree(FileSystem& fs, const std::string& folder) {
  Result<std::vector<std::string>> names = fs.list(folder);
  if (!names.ok()) return names.status();
  for (const std::string& name : names.value()) {
    const std::string path = join_path(folder, name);
    Status status = fs.is_directory(path) ? sync_tree(fs, path) : fs.sync(path);
    if (!status.ok()) return status;
  }
  return fs.sync(folder);
}

/// The old folder goes only when the disk knows of the new one.  If it cannot be removed, the commit still
/// holds: `remove_stale_temporaries` tries again.
Status remove_after_sync(FileSystem& fs, const std::string& parent, const std::string& old) {
  Status status = fs.sync(parent);
  if (!status.ok()) return status;
  [[maybe_unused]] const Status ignored = fs.remove_all(old);
  return {};
}

/// A process that has ended can be signalled until its parent has waited for it.  Linux tells.
bool has_ended(FileSystem& fs, long pid) {
  Result<std::string> stat = fs.read(fmt::format("/proc/{}/stat", pid));
  if (!stat.ok()) return false;
  const std::string& text = stat.value();
  const size_t state = text.rfind(") ");  // behind the program's name, which may hold anything
  return state != std::string::npos && std::string_view("ZX").find(text[state + 2]) != std::string_view::npos;
}

/// Whether `.tmp-<name>-<pid>-<n>` belongs to another process that is alive.
bool in_use(FileSystem& fs, std::string_view name) {
  const size_t n = name.rfind('-');
  if (n == std::string_view::npos || n == 0) return false;
  const size_t p = name.rfind('-', n - 1);
  if (p == std::string_view::npos) return false;
  long pid = 0;
  const auto [end, error] = std::from_chars(name.data() + p + 1, name.data() + n, pid);
  if (error != std::errc() || end != name.data() + n || pid <= 0 || pid == getpid()) return false;
  return (kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM) && !has_ended(fs, pid);
}

bool cannot(const Status& status) { return !status.ok() && status.code() == ErrorCode::kUnsupported; }

Status remove_in_place(FileSystem& fs, const std::string& folder, const std::vector<std::string>& first) {
  Status status;
  for (const std::string& name : first)
    if (status.ok()) status = fs.remove_all(join_path(folder, name));
  if (status.ok() && !first.empty()) status = fs.sync(folder);
  return status.ok() ? fs.remove_all(folder) : status;
}

Status move_files(FileSystem& fs, const std::string& from, const std::string& to,
                  const std::vector<std::string>& first) {
  Result<std::vector<std::string>> names = fs.list(from);
  if (!names.ok()) return names.status();
  std::stable_partition(names.value().begin(), names.value().end(), [&](const std::string& name) {
    return std::find(first.begin(), first.end(), name) != first.end();
  });
  Status status = fs.create_directories(to);
  for (const std::string& name : names.value())
    if (status.ok()) status = rename_folder(fs, join_path(from, name), join_path(to, name));
  return status.ok() ? fs.remove_empty_folder(from) : status;
}

}  // namespace

DirectoryTransaction::DirectoryTransaction(FileSystem& fs, std::string target)
    : fs_(fs), target_(join_path(parent_folder(target), file_name(target))), folder_(temporary_name(target)) {
  // A killed process that had this one's id may have left a folder of that very name.
  if (fs_.exists(folder_)) status_ = fs_.remove_all(folder_);
  if (status_.ok()) status_ = fs_.create_directories(folder_);
}

DirectoryTransaction::~DirectoryTransaction() {
  if (done_) return;
  [[maybe_unused]] const Status ignored = fs_.remove_all(folder_);
}

Status DirectoryTransaction::write(std::string_view name, const Writer& writer) {
  if (!status_.ok()) return status_;
  status_ = fs_.write(join_path(folder_, name), writer);
  return status_;
}

Status DirectoryTransaction::write(std::string_view name, std::string_view content) {
  return write(name, [content](const Sink& sink) { return sink(as_bytes(content)); });
}

Status DirectoryTransaction::commit() {
  if (status_.ok()) status_ = sync_tree(fs_, folder_);
  if (status_.ok()) status_ = publish();
  return status_;
}

Status DirectoryTransaction::publish() {
  const std::string parent = parent_folder(target_);
  const std::string replaced = target_ + std::string(kReplacedSuffix);
  if (!fs_.exists(target_)) {
    Status status = fs_.rename(folder_, target_);
    if (!status.ok()) return status;
    done_ = true;
    return fs_.sync(parent);
  }
  Status status = fs_.exchange(folder_, target_);
  if (status.ok()) {
    done_ = true;
    return remove_after_sync(fs_, parent, folder_);
  }
  if (status.code() != ErrorCode::kUnsupported) return status;
  status = fs_.remove_all(replaced);
  if (status.ok()) status = fs_.rename(target_, replaced);
  if (!status.ok()) return status;
  status = fs_.rename(folder_, target_);
  if (!status.ok()) {
    [[maybe_unused]] const Status ignored = fs_.rename(replaced, target_);
    return status;
  }
  done_ = true;
  return remove_after_sync(fs_, parent, replaced);
}

Status remove_folder(FileSystem& fs, const std::string& folder, const std::vector<std::string>& first) {
  const std::string removed = temporary_name(folder);
  Status status = fs.rename(folder, removed);
  if (cannot(status)) return remove_in_place(fs, folder, first);
  if (!status.ok()) return status.code() == ErrorCode::kNotFound ? Status() : status;
  status = fs.sync(parent_folder(folder));
  return status.ok() ? fs.remove_all(removed) : status;
}

Status rename_folder(FileSystem& fs, const std::string& from, const std::string& to,
                     const std::vector<std::string>& first) {
  const Status status = fs.rename(from, to);
  return cannot(status) ? move_files(fs, from, to, first) : status;
}

Status remove_stale_temporaries(FileSystem& fs, const std::string& folder) {
  if (!fs.is_directory(folder)) return {};
  Result<std::vector<std::string>> names = fs.list(folder);
  if (!names.ok()) return names.status();
  for (const std::string& name : names.value()) {
    const std::string path = join_path(folder, name);
    Status status;
    if (name.starts_with(kTemporaryPrefix) && !in_use(fs, name)) {
      status = fs.remove_all(path);
    } else if (name.size() > kReplacedSuffix.size() && name.ends_with(kReplacedSuffix) &&
               fs.is_directory(path)) {
      const std::string original = path.substr(0, path.size() - kReplacedSuffix.size());
      status = fs.exists(original) ? fs.remove_all(path) : fs.rename(path, original);
    }
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace lathe
