#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "lathe/io/file_system.h"

namespace lathe {

/// The proof that temporaries in a folder are this program's.  While one lives, the file `.tmp-lathe-<pid>`
/// in the folder says that everything named `.tmp-<name>-<pid>-<n>` or `<name>.replaced-<pid>-<n>` next to it
/// belongs to this process.  A process that is killed leaves it, and what it was writing, for
/// `clear_leftovers`. Where it cannot be
/// written, or there is no such folder yet, what such a process leaves stays.
class LeftoversNote {
 public:
  /// `fs` must outlive it.
  LeftoversNote(FileSystem& fs, const std::string& folder);
  ~LeftoversNote();
  LeftoversNote(const LeftoversNote&) = delete;
  LeftoversNote& operator=(const LeftoversNote&) = delete;

 private:
  FileSystem& fs_;
  std::string path_;
};

/// What `clear_leftovers` did, by names in the folder.
struct Leftovers {
  std::vector<std::string> removed;
  std::vector<std::string> renamed;   ///< names that folders which were set aside have got back
  std::vector<std::string> unproven;  ///< named like a leftover, but without a note: not touched
  Status status;                      ///< of what failed first and ended it
};

/// Clears what killed processes left in `folder` itself, where a note of theirs proves it: gives
/// `X.replaced-<pid>-<n>` its name X back where X is missing, removes all else, the note at last.  What a
/// process that is alive has a note for, and what no note proves, stays.  To be called before this process
/// begins to write there.  A folder that is not there has none.
Leftovers clear_leftovers(FileSystem& fs, const std::string& folder);

/// Whether a name has the form of a note or of a temporary of `temporary_name`.
bool is_leftover_name(std::string_view name);

}  // namespace lathe
