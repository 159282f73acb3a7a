#pragma once
#include <functional>
#include <string>
#include <vector>

#include "lathe/io/hub_client.h"

namespace lathe {

/// Names the files that are wanted out of those a repository has.
using ChooseFiles = std::function<std::vector<std::string>(const std::vector<std::string>& files)>;

/// Asks the Hub for the repository's commit and files, and brings those that are wanted and not there yet
/// into the cache.  A file enters it only with the hash that the Hub announced; what broke off is kept beside
/// it and gone on with.  Several processes may fetch the same.  Returns the snapshot's folder. Errors: as
/// HubClient and download_bytes; kInvalidData for a wrong hash; what `choose` throws.
std::string fetch_snapshot(FileSystem& fs, const HubRepo& repo, const std::string& cache_dir,
                           const HubSettings& settings, const ChooseFiles& choose);

/// What of a model is needed.
struct ModelNeed {
  bool weights = true, tokenizer = true;
};

/// The folder of a model named by folder or Hub name: as find_model where all that is needed is there,
/// without the network; else fetched.  Offline (HubSettings::offline) it is what is there. Weights are
/// model.safetensors, whole or in shards, and only where there is none pytorch_model.bin. Errors: as
/// find_model and fetch_snapshot; kNotFound listing what is missing and how to get it.
std::string fetch_model(FileSystem& fs, const std::string& name_or_path, const std::string& revision,
                        const std::string& cache_dir, const ModelNeed& need, const HubSettings& settings);

/// Whether a folder holds config.json and what is needed; shards as their index names them.
bool is_whole_model(FileSystem& fs, const std::string& folder, const ModelNeed& need);

/// The files of a model that Lathe reads.  Errors: kNotFound where there are no weights among them.
std::vector<std::string> choose_model_files(const std::vector<std::string>& files, const ModelNeed& need,
                                            const std::string& name);

}  // namespace lathe
