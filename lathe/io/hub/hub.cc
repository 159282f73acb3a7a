#include "lathe/io/hub/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "lathe/core/environment.h"
#include "lathe/io/hub/hub_download.h"
#include "lathe/io/json_file.h"
#include "lathe/io/model_folder.h"

namespace lathe {
namespace {

constexpr double kSayWaiting_s = 10;

/// Kinds of weights, best first: the whole file, the index of its shards.
struct WeightFiles {
  std::string_view whole, index;
};
constexpr std::array<WeightFiles, 2> kWeights = {{{"model.safetensors", "model.safetensors.index.json"},
                                                  {"pytorch_model.bin", "pytorch_model.bin.index.json"}}};

/// One file of a snapshot: the blob, unless it is there, and the link to it.
class FileFetcher {
 public:
  FileFetcher(FileSystem& fs, HubCache& cache, HubClient& client) : fs_(fs), cache_(cache), client_(client) {}

  void fetch(const std::string& commit, const std::string& name) {
    if (fs_.exists(cache_.file(commit, name))) return;
    const RemoteFile file = client_.describe(commit, name);
    check_size(file);
    cache_.create();
    const auto lock = lock_blob(file);
    if (!fs_.exists(cache_.blob(file.etag))) fetch_blob(file);
    throw_away(incomplete(file));
    cache_.link(commit, name, file.etag);
  }

 private:
  std::unique_ptr<HubCache::Lock> lock_blob(const RemoteFile& file) {
    const HubSettings& settings = client_.settings();
    double said = 0;
    return cache_.lock(file.etag, [&](double seconds) {
      if (settings.is_stopped())
        fail(ErrorCode::kInterrupted, "{}: stopped while another process fetched it", file.name);
      if (!settings.message || seconds < said + kSayWaiting_s) return;
      said = seconds;
      settings.message(
          fmt::format("{}: another process is fetching it; waiting for {:.0f} s", file.name, seconds));
    });
  }

  /// Of a model only weights are large.
  void check_size(const RemoteFile& file) const {
    const bool large = client_.repo().kind != RepoKind::kModel || file.name.ends_with(".safetensors") ||
                       file.name.ends_with(".bin");
    if (!large && file.size > kSmallFileBytes)
      fail(
          ErrorCode::kInvalidData,
          "{} of \"{}\": found {} bytes announced, expected at most {}; it is not fetched: check the name of "
          "the "
          "model",
          file.name, client_.repo().name, file.size, kSmallFileBytes);
  }

  std::string incomplete(const RemoteFile& file) const { return cache_.blob(file.etag) + ".incomplete"; }

  void throw_away(const std::string& path) {
    for (const std::string& part : part_files(fs_, path)) fs_.remove_all(part).check();
    fs_.remove_all(path).check();
  }

  void fetch_blob(const RemoteFile& file) {
    const std::string path = incomplete(file);
    const bool resumed = fs_.exists(path);
    download_bytes(fs_, client_, file, path);
    bool right = has_right_hash(fs_, path, file.etag);
    if (!right && resumed) {  // what lay there may have been something else
      throw_away(path);
      download_bytes(fs_, client_, file, path);
      right = has_right_hash(fs_, path, file.etag);
    }
    if (!right) {
      throw_away(path);
      fail(ErrorCode::kInvalidData,
           "{} of \"{}\": what {} sent has not the hash {} that it announced, and was thrown away; try "
           "again, or another HF_ENDPOINT",
           file.name, client_.repo().name, without_userinfo(client_.settings().endpoint), file.etag);
    }
    fs_.sync(path).check();
    fs_.rename(path, cache_.blob(file.etag)).check();
    if (client_.settings().progress) client_.settings().progress(file.name, file.size, file.size);
  }

  FileSystem& fs_;
  HubCache& cache_;
  HubClient& client_;
};

bool contains(const std::vector<std::string>& files, std::string_view name) {
  return std::find(files.begin(), files.end(), name) != files.end();
}

/// The files that an index of shards names.
std::set<std::string> shards_of(const nlohmann::json& index, const std::string& path) {
  const auto weight_map = required<nlohmann::json>(index, "weight_map", path);
  std::set<std::string> shards;
  for (const auto& item : weight_map.items())
    shards.insert(required<std::string>(weight_map, item.key(), path + ": weight_map"));
  return shards;
}

std::vector<std::string> weight_files(const std::vector<std::string>& files, const std::string& name,
                                      const ReadFile& read) {
  for (const auto& [whole, index_name] : kWeights) {
    if (contains(files, whole)) return {std::string(whole)};
    if (!contains(files, index_name)) continue;
    const std::string index(index_name);
    std::vector<std::string> out{index};
    const std::set<std::string_view> there(files.begin(), files.end());
    for (const std::string& shard : shards_of(parse_json(read(index), index), index)) {
      if (!there.contains(shard))
        fail(ErrorCode::kNotFound, "model \"{}\" has not the file {} that its {} names", name, shard, index);
      out.push_back(shard);
    }
    return out;
  }
  fail(ErrorCode::kNotFound,
       "model \"{}\" has neither model.safetensors nor pytorch_model.bin; expected one of them", name);
}

/// Of sentence-transformers: modules.json, settings, and the files of modules in folders such as 2_Dense.
bool is_of_modules(const std::string& file) {
  const std::string name = file_name(file);
  if (name == file)
    return file == "modules.json" || file == "config_sentence_transformers.json" ||
           (file.starts_with("sentence_") && file.ends_with("_config.json"));
  const bool of_module = file[0] >= '1' && file[0] <= '9' && file.find('_') < file.find('/') &&
                         std::count(file.begin(), file.end(), '/') == 1;
  return of_module && (name == "config.json" || name == "model.safetensors" || name == "pytorch_model.bin");
}

std::vector<std::string> missing_weights(FileSystem& fs, const std::string& folder) {
  for (const auto& [whole, index_name] : kWeights) {
    if (fs.exists(join_path(folder, whole))) return {};
    const std::string index = join_path(folder, index_name);
    if (!fs.exists(index)) continue;
    std::vector<std::string> missing;
    for (const std::string& shard : shards_of(read_json(fs, index), index))
      if (!fs.exists(join_path(folder, shard))) missing.push_back(shard);
    return missing;
  }
  return {"model.safetensors"};
}

}  // namespace

std::string fetch_snapshot(FileSystem& fs, const HubRepo& repo, const std::string& cache_dir,
                           const HubSettings& settings, const ChooseFiles& choose) {
  HubClient client(settings, repo);
  const HubListing listing = client.list();
  HubCache cache(fs, hub_cache_folder(cache_dir), repo);
  FileFetcher fetcher(fs, cache, client);
  const ReadFile read = [&](const std::string& file) {
    fetcher.fetch(listing.commit, file);
    return fs.read(cache.file(listing.commit, file)).value();
  };
  for (const std::string& file : choose(listing.files, read)) fetcher.fetch(listing.commit, file);
  // After all files: until then the name refers to the older snapshot.
  cache.set_ref(repo.revision, listing.commit);
  if (settings.is_stopped())  // since the last answer: nothing asks after this
    fail(ErrorCode::kInterrupted, "{}: stopped; what was fetched is kept", repo.name);
  return cache.snapshot(listing.commit);
}

std::vector<std::string> missing_files(FileSystem& fs, const std::string& folder, const ModelNeed& need) {
  const auto has = [&](std::string_view name) { return fs.exists(join_path(folder, name)); };
  std::vector<std::string> missing;
  if (need.weights && has(kAdapterConfigFile)) {
    if (!has(kAdapterFile)) missing.emplace_back(kAdapterFile);
    return missing;
  }
  if (!has("config.json") && (need.weights || !need.tokenizer)) missing.emplace_back("config.json");
  if (need.tokenizer && !has("tokenizer.json") && !has("vocab.txt")) missing.emplace_back("tokenizer.json");
  if (!need.weights) return missing;
  const std::vector<std::string> weights = missing_weights(fs, folder);
  missing.insert(missing.end(), weights.begin(), weights.end());
  return missing;
}

std::vector<std::string> choose_model_files(const std::vector<std::string>& files, const ModelNeed& need,
                                            const std::string& name, const ReadFile& read) {
  std::vector<std::string> out;
  if (contains(files, "config.json")) out.emplace_back("config.json");
  if (need.tokenizer)
    for (const char* file : kTokenizerFiles)
      if (contains(files, file)) out.emplace_back(file);
  if (!need.weights) return out;
  if (contains(files, kAdapterConfigFile)) {
    if (!contains(files, kAdapterFile))
      fail(ErrorCode::kNotFound, "model \"{}\" has an {}, but no {}; expected both", name, kAdapterConfigFile,
           kAdapterFile);
    out.insert(out.end(), {kAdapterConfigFile, kAdapterFile});
    return out;
  }
  const std::vector<std::string> weights = weight_files(files, name, read);
  out.insert(out.end(), weights.begin(), weights.end());
  if (contains(files, "modules.json"))
    std::copy_if(files.begin(), files.end(), std::back_inserter(out), is_of_modules);
  return out;
}

std::string fetch_model(FileSystem& fs, const std::string& name_or_path, const std::string& revision,
                        const std::string& cache_dir, const ModelNeed& need, const HubSettings& settings) {
  std::vector<std::string> looked_at;
  const std::vector<std::string> found = find_models(fs, name_or_path, revision, cache_dir, looked_at);
  for (const std::string& folder : found)
    if (folder == expand_home(name_or_path) || missing_files(fs, folder, need).empty()) return folder;
  if (settings.offline && !found.empty())
    fail(ErrorCode::kNotFound,
         "model \"{}\" (revision {}) is on this machine in part: {} has no {}, and HF_HUB_OFFLINE is set. "
         "Unset it to fetch what is missing, or set HF_HOME to the Hugging Face cache that holds it.",
         name_or_path, revision, found.front(), fmt::join(missing_files(fs, found.front(), need), ", "));
  if (settings.offline)
    fail(ErrorCode::kNotFound,
         "model \"{}\" (revision {}) is not on this machine, and HF_HUB_OFFLINE is set. Looked at:\n  {}\n"
         "Unset HF_HUB_OFFLINE to fetch it, give the folder of a model (config.json and model.safetensors), "
         "or set HF_HOME to the Hugging Face cache that holds it.",
         name_or_path, revision, fmt::join(looked_at, "\n  "));
  const auto note = [&](const std::string& line) {
    if (settings.note) settings.note(line);
  };
  note(fmt::format("{}; looking on the Hub", found.empty()
                                                 ? fmt::format("no folder {} here", name_or_path)
                                                 : fmt::format("{} is here in part", name_or_path)));
  size_t files = 0;
  uint64_t bytes = 0;
  HubSettings counting = settings;
  counting.progress = [&](const std::string& file, uint64_t done, uint64_t total) {
    if (done == total) ++files, bytes += total;
    if (settings.progress) settings.progress(file, done, total);
  };
  try {
    const std::string folder =
        fetch_snapshot(fs, {RepoKind::kModel, name_or_path, revision}, cache_dir, counting,
                       [&](const std::vector<std::string>& names, const ReadFile& read) {
                         return choose_model_files(names, need, name_or_path, read);
                       });
    note(files > 0 ? fmt::format("fetched {} file{}, {:.1f} MB: {}", files, files == 1 ? "" : "s",
                                 static_cast<double>(bytes) * 1e-6, folder)
                   : fmt::format("found, and nothing was missing: {}", folder));
    return folder;
  } catch (const Error& e) {  // the name may have been meant for a folder
    if (!found.empty() || e.code() == ErrorCode::kInterrupted) throw;
    fail(e.code(), "{}\nOn this machine (HF_HOME names another cache) it was looked for at:\n  {}", e.what(),
         fmt::join(looked_at, "\n  "));
  }
}

}  // namespace lathe
