#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/io/file_system.h"

namespace lathe {

enum class RepoKind { kModel, kDataset };

/// A repository of the Hub at a branch, tag or commit.
struct HubRepo {
  RepoKind kind = RepoKind::kModel;
  std::string name;  ///< "organisation/name" or "name"
  std::string revision = "main";
};

/// "name" or "organisation/name" of letters, digits, '-', '_' and '.', as the Hub allows.
bool is_hub_name(std::string_view name);
/// Whether a path that becomes part of another one stays inside of it.
bool is_inside(std::string_view part);
/// The name as given, then its other form ("bert-base-cased", "google-bert/bert-base-cased").
std::vector<std::string> hub_name_forms(const std::string& name);

/// The folder of the local Hugging Face cache; it need not exist: `cache_dir`, or $HF_HUB_CACHE,
/// $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub (the first
/// that is set).
std::string hub_cache_folder(const std::string& cache_dir = "");
/// The path that one of the Hub's variables names: "~" and variables in it expanded, as huggingface_hub does.
std::string hub_path(const char* name);
/// $HF_HOME, $XDG_CACHE_HOME/huggingface or ~/.cache/huggingface.
std::string hub_home();

/// One repository in the cache, in the layout that Python's huggingface_hub reads and writes:
///   <cache>/models--org--name/blobs/<etag>                    what was fetched, by its hash
///   <cache>/models--org--name/blobs/<etag>.incomplete         its first bytes, while it is being fetched
///   <cache>/models--org--name/refs/<revision>                 a commit
///   <cache>/models--org--name/snapshots/<commit>/<file>       a relative link to the blob
///   <cache>/models--org--name/.lathe/<commit>.json            Lathe's own: the names of all files there are
///   <cache>/.locks/models--org--name/<etag>.lock              held (flock) by who fetches it
class HubCache {
 public:
  HubCache(FileSystem& fs, std::string cache, const HubRepo& repo);

  /// The commit that refs/<revision> names, or else the revision itself.  Errors: kInvalidData.
  std::string commit_of(const std::string& revision) const;
  std::string snapshot(const std::string& commit) const;
  std::string file(const std::string& commit, const std::string& name) const;
  std::string blob(const std::string& etag) const;
  const std::string& folder() const { return folder_; }

  /// Makes the folders, and the cache's CACHEDIR.TAG.  Errors: kIo.
  void create();
  /// snapshots/<commit>/<name> → ../../blobs/<etag>, replacing what is there.  Errors: kIo.
  void link(const std::string& commit, const std::string& name, const std::string& etag);
  /// Writes refs/<revision> unless it says so already or the revision is the commit.  Errors: kIo.
  void set_ref(const std::string& revision, const std::string& commit);

  /// Keeps what the Hub's listing of a commit held; a cache that cannot be written stays as it is.
  void remember_files(const std::string& commit, const std::vector<std::string>& files);
  /// The kept list; nothing if the Hub was not asked, or if it cannot be read.
  std::optional<std::vector<std::string>> remembered_files(const std::string& commit) const;

  /// Held until it goes; on file systems without flock it is no lock.
  class Lock {
   public:
    explicit Lock(int fd) : fd_(fd) {}
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    int fd_;
  };
  /// Waits for whoever else fetches the blob; waiting(seconds) is called about every tenth of a second and
  /// may throw.  Errors: kIo.
  std::unique_ptr<Lock> lock(const std::string& etag, const std::function<void(double)>& waiting);

 private:
  FileSystem& fs_;
  std::string cache_, name_, folder_;
};

}  // namespace lathe
