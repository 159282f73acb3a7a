#include "lathe/io/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "lathe/io/hub_download.h"
#include "lathe/io/json_file.h"
#include "lathe/io/model_folder.h"

namespace lathe {
namespace {

constexpr double kSayWaiting_s = 10;

constexpr std::array<std::string_view, 9> kTokenizerFiles = {"tokenizer.json",
                                                             "tokenizer_config.json",
                                                             "special_tokens_map.json",
                                                             "added_tokens.json",
                                                             "vocab.txt",
                                                             "vocab.json",
                                                             "merges.txt",
                                                             "spiece.model",
                                                             "sentencepiece.bpe.model"};

/// Kinds of weights, best first: the whole file, the index of its shards, how a shard's name begins and ends.
struct WeightFiles {
  std::string_view whole, index, shard_begin, shard_end;
};
constexpr std::array<WeightFiles, 2> kWeights = {
    {{"model.safetensors", "model.safetensors.index.json", "model-", ".safetensors"},
     {"pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-", ".bin"}}};

/// One file of a snapshot: the blob, unless it is there, and the link to it.
class FileFetcher {
 public:
  FileFetcher(FileSystem& fs, HubCache& cache, HubClient& client) : fs_(fs), cache_(cache), client_(client) {}

  void fetch(const std::string& commit, const std::string& name) {
    if (fs_.exists(cache_.file(commit, name))) return;
    const RemoteFile file = client_.describe(commit, name);
    const auto lock = lock_blob(file);
    if (!fs_.exists(cache_.blob(file.etag))) fetch_blob(file);
    cache_.link(commit, name, file.etag);
  }

 private:
  std::unique_ptr<HubCache::Lock> lock_blob(const RemoteFile& file) {
    const HubSettings& settings = client_.settings();
    double said = 0;
    return cache_.lock(file.etag, [&](double seconds) {
      if (settings.should_stop && settings.should_stop())
        fail(ErrorCode::kInterrupted, "{}: stopped while another process fetched it", file.name);
      if (!settings.message || seconds < said + kSayWaiting_s) return;
      said = seconds;
      settings.message(
          fmt::format("{}: another process is fetching it; waiting for {:.0f} s", file.name, seconds));
    });
  }

  void fetch_blob(const RemoteFile& file) {
    const std::string incomplete = cache_.blob(file.etag) + ".incomplete";
    const bool resumed = fs_.exists(incomplete);
    download_bytes(fs_, client_, file, incomplete);
    bool right = has_right_hash(fs_, incomplete, file.etag);
    if (!right && resumed) {  // what lay there may have been something else
      fs_.remove_all(incomplete).check();
      download_bytes(fs_, client_, file, incomplete);
      right = has_right_hash(fs_, incomplete, file.etag);
    }
    if (!right) {
      fs_.remove_all(incomplete).check();
      fail(ErrorCode::kInvalidData,
           "{} of \"{}\": what {} sent has not the hash {} that it announced, and was thrown away; try "
           "again, or "
           "another HF_ENDPOINT",
           file.name, client_.repo().name, without_userinfo(client_.settings().endpoint), file.etag);
    }
    fs_.sync(incomplete).check();
    fs_.rename(incomplete, cache_.blob(file.etag)).check();
    if (client_.settings().progress) client_.settings().progress(file.name, file.size, file.size);
  }

  FileSystem& fs_;
  HubCache& cache_;
  HubClient& client_;
};

bool contains(const std::vector<std::string>& files, std::string_view name) {
  return std::find(files.begin(), files.end(), name) != files.end();
}

std::vector<std::string> weight_files(const std::vector<std::string>& files) {
  for (const WeightFiles& kind : kWeights) {
    if (contains(files, kind.whole)) return {std::string(kind.whole)};
    if (!contains(files, kind.index)) continue;
    std::vector<std::string> out{std::string(kind.index)};
    for (const std::string& file : files)
      if (file.starts_with(kind.shard_begin) && file.ends_with(kind.shard_end)) out.push_back(file);
    return out;
  }
  return {};
}

bool has_shards(FileSystem& fs, const std::string& folder, std::string_view index) {
  const std::string path = join_path(folder, index);
  const nlohmann::json json = read_json(fs, path);
  const auto weight_map = required<nlohmann::json>(json, "weight_map", path);
  for (const auto& item : weight_map.items())
    if (!item.value().is_string() || !fs.exists(join_path(folder, item.value().get<std::string>())))
      return false;
  return true;
}

}  // namespace

std::string fetch_snapshot(FileSystem& fs, const HubRepo& repo, const std::string& cache_dir,
                           const HubSettings& settings, const ChooseFiles& choose) {
  HubClient client(settings, repo);
  const HubListing listing = client.list();
  const std::vector<std::string> wanted = choose(listing.files);
  HubCache cache(fs, hub_cache_folder(cache_dir), repo);
  cache.create();
  FileFetcher fetcher(fs, cache, client);
  for (const std::string& file : wanted) fetcher.fetch(listing.commit, file);
  if (settings.should_stop && settings.should_stop())  // since the last answer: nobody asks behind this
    fail(ErrorCode::kInterrupted, "{}: stopped; what was fetched is kept", repo.name);
  cache.set_ref(repo.revision,
                listing.commit);  // last: until then an older snapshot stays what the name means
  return cache.snapshot(listing.commit);
}

bool is_whole_model(FileSystem& fs, const std::string& folder, const ModelNeed& need) {
  const auto has = [&](std::string_view name) { return fs.exists(join_path(folder, name)); };
  if (!has("config.json") && need.weights) return false;
  if (need.tokenizer && !has("tokenizer.json") && !has("vocab.txt") && !has("vocab.json")) return false;
  if (!need.weights) return true;
  for (const WeightFiles& kind : kWeights)
    if (has(kind.whole) || (has(kind.index) && has_shards(fs, folder, kind.index))) return true;
  return false;
}

std::vector<std::string> choose_model_files(const std::vector<std::string>& files, const ModelNeed& need,
                                            const std::string& name) {
  std::vector<std::string> out;
  if (contains(files, "config.json")) out.emplace_back("config.json");
  if (need.tokenizer)
    for (const std::string_view file : kTokenizerFiles)
      if (contains(files, file)) out.emplace_back(file);
  if (!need.weights) return out;
  const std::vector<std::string> weights = weight_files(files);
  if (weights.empty())
    fail(ErrorCode::kNotFound,
         "model \"{}\" has neither model.safetensors nor pytorch_model.bin; wants one of them", name);
  out.insert(out.end(), weights.begin(), weights.end());
  return out;
}

std::string fetch_model(FileSystem& fs, const std::string& name_or_path, const std::string& revision,
                        const std::string& cache_dir, const ModelNeed& need, const HubSettings& settings) {
  std::vector<std::string> looked_at;
  const std::string found = find_model(fs, name_or_path, revision, cache_dir, looked_at);
  if (found == expand_home(name_or_path) || (!found.empty() && is_whole_model(fs, found, need))) return found;
  if (settings.offline) {
    if (!found.empty()) return found;
    fail(ErrorCode::kNotFound,
         "model \"{}\" (revision {}) is not on this machine, and HF_HUB_OFFLINE is set. Looked at:\n  "
         "{}\nUnset "
         "HF_HUB_OFFLINE to fetch it, give the folder of a model (config.json and model.safetensors), or set "
         "HF_HOME "
         "to the Hugging Face cache that holds it.",
         name_or_path, revision, fmt::join(looked_at, "\n  "));
  }
  try {
    return fetch_snapshot(
        fs, {RepoKind::kModel, name_or_path, revision}, cache_dir, settings,
        [&](const std::vector<std::string>& files) { return choose_model_files(files, need, name_or_path); });
  } catch (const Error& e) {  // the name may have been meant for a folder
    if (!found.empty() || e.code() == ErrorCode::kInterrupted) throw;
    fail(e.code(), "{}\nOn this machine (HF_HOME names another cache) it was looked for at:\n  {}", e.what(),
         fmt::join(looked_at, "\n  "));
  }
}

}  // namespace lathe
