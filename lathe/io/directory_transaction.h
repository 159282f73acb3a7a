#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "lathe/io/file_system.h"

namespace lathe {

/// Writes a whole folder, such as a checkpoint, or nothing of it.  Files go to
/// `<parent>/.tmp-<name>-<pid>-<n>`; `commit` syncs every file and folder in it and then gives it its name.
/// Without a commit the destructor removes the temporary folder.
///
/// Where a folder of that name is already there, the two names are swapped in one step and the old content is
/// removed under the temporary name.  Where the disk format cannot swap, the old folder first moves to
/// `<name>.replaced-<pid>-<n>`, then the new one takes the name, then the old one goes: a crash between the
/// two renames leaves the old folder whole under that name, and `clear_leftovers` gives it its own back,
/// if a `LeftoversNote` is next to it (leftovers.h).
///
/// Once `commit` has returned ok, the new folder is there to stay; when it returns an error, the name holds
/// what it held before, or the new folder if only the last sync failed.
class DirectoryTransaction {
 public:
  /// Creates the temporary folder; an error shows in `status` and in every later call.
  DirectoryTransaction(FileSystem& fs, std::string target);
  ~DirectoryTransaction();
  DirectoryTransaction(const DirectoryTransaction&) = delete;
  DirectoryTransaction& operator=(const DirectoryTransaction&) = delete;

  /// The folder for files until the commit.
  const std::string& folder() const { return folder_; }
  const Status& status() const { return status_; }

  /// Writes `<folder>/<name>`; `name` may hold '/' (folders are made).  The first error sticks: `commit` then
  /// returns it and changes nothing.
  Status write(std::string_view name, const Writer& writer);
  Status write(std::string_view name, std::string_view content);

  Status commit();

 private:
  Status publish();

  FileSystem& fs_;
  std::string target_;
  std::string folder_;
  Status status_;
  bool done_ = false;
};

/// Removes a folder such that none bears its name that is not whole: it goes under a temporary one.  Where
/// the disk cannot rename it, the files `first`, by which it counts as whole, go before the rest.  Nothing
/// there is success.
Status remove_folder(FileSystem& fs, const std::string& folder, const std::vector<std::string>& first = {});

/// Renames a folder to a name that nothing bears; in the same way, where the disk cannot rename folders, its
/// files move one by one, `first` before all others.
Status rename_folder(FileSystem& fs, const std::string& from, const std::string& to,
                     const std::vector<std::string>& first = {});

}  // namespace lathe
