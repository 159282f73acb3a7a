#include "lathe/io/model_folder.h"

#include <fmt/format.h>

#include "lathe/core/environment.h"
#include "lathe/io/hub/hub_cache.h"

namespace lathe {

std::vector<std::string> find_models(FileSystem& fs, const std::string& name_or_path,
                                     const std::string& revision, const std::string& cache_dir,
                                     std::vector<std::string>& looked_at) {
  const std::string path = expand_home(name_or_path);
  if (fs.is_directory(path)) return {path};
  if (!is_hub_name(name_or_path)) fs.can_look_for(path).check();
  if (fs.exists(path) || !is_hub_name(name_or_path))
    fail(ErrorCode::kNotFound,
         "{}: {}, expected a folder with config.json and weights, or a model's name (\"bert-base-cased\")",
         name_or_path, fs.exists(path) ? "found a file" : "there is no such folder");
  if (!is_inside(revision))
    fail(ErrorCode::kUsage, "revision \"{}\": expected a branch, tag or commit", revision);
  looked_at.push_back(path);
  std::vector<std::string> found;
  Status hidden;
  for (const std::string& name : hub_name_forms(name_or_path)) {
    const HubCache cache(fs, hub_cache_folder(cache_dir), {RepoKind::kModel, name, revision});
    const std::string commit = cache.commit_of(revision), snapshot = cache.snapshot(commit);
    if (hidden.ok()) hidden = fs.can_look_for(snapshot);
    if (fs.is_directory(snapshot))
      found.push_back(snapshot);
    else
      looked_at.push_back(commit == revision && fs.is_directory(cache.folder())
                              ? fmt::format("{} (and refs/{})", snapshot, revision)
                              : snapshot);
  }
  if (found.empty()) hidden.check();
  return found;
}

}  // namespace lathe
