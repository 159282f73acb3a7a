#pragma once
#include <functional>
#include <string>
#include <vector>

#include "lathe/io/hub/hub_client.h"

namespace lathe {

/// Fetches one file immediately and returns its content.
using ReadFile = std::function<std::string(const std::string& name)>;

/// Chooses the files to fetch from those of a repository; `read` gives the content of one that decides it.
using ChooseFiles =
    std::function<std::vector<std::string>(const std::vector<std::string>& files, const ReadFile& read)>;

/// Asks the Hub for the repository's commit and files, and fetches the needed ones that are not in the cache
/// yet.  A file enters the cache only with the hash that the Hub announced; an interrupted download is kept
/// next to it and continued.  Several processes may fetch the same.  Returns the snapshot's folder. Errors:
/// as HubClient and download_bytes; kInvalidData for a wrong hash; what `choose` throws.  A cache that cannot
/// be written will do where nothing is missing.
std::string fetch_snapshot(FileSystem& fs, const HubRepo& repo, const std::string& cache_dir,
                           const HubSettings& settings, const ChooseFiles& choose);

/// What of a model is needed.
struct ModelNeed {
  bool weights = true, tokenizer = true;
};

/// The folder of a model named by folder or Hub name: the first of find_models where all that is needed is
/// there, without the network; else fetched, which HubSettings::note tells.  Weights are model.safetensors,
/// whole or in shards, and only if there is none pytorch_model.bin; of an adapter its own, and all else comes
/// from its base where it is not there.  Errors: as find_models and fetch_snapshot; offline
/// (HubSettings::offline) kNotFound listing what is missing and how to get it.
std::string fetch_model(FileSystem& fs, const std::string& name_or_path, const std::string& revision,
                        const std::string& cache_dir, const ModelNeed& need, const HubSettings& settings);

/// What a folder lacks of config.json and what is needed, shards as their index names them.  A tokenizer by
/// itself does not need config.json.  Errors: as read_json for an index.
std::vector<std::string> missing_files(FileSystem& fs, const std::string& folder, const ModelNeed& need);

/// The files of a model that Lathe reads, shards as their index names them.  Errors: kNotFound where there
/// are no weights among them, or not all; kInvalidData for an index that makes no sense.
std::vector<std::string> choose_model_files(const std::vector<std::string>& files, const ModelNeed& need,
                                            const std::string& name, const ReadFile& read);

}  // namespace lathe
