#include "lathe/io/directory_transaction.h"

#include <algorithm>
#include <string>
#include <vector>

namespace lathe {
namespace {

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
/// holds: `clear_leftovers` tries again.
Status remove_after_sync(FileSystem& fs, const std::string& parent, const std::string& old) {
  Status status = fs.sync(parent);
  if (!status.ok()) return status;
  [[maybe_unused]] const Status ignored = fs.remove_all(old);
  return {};
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
  status_ = fs_.create_directories(folder_);
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
  const std::string replaced = replaced_name(target_);
  status = fs_.rename(target_, replaced);
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

}  // namespace lathe
