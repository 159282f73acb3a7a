#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lathe/io/hub/hub.h"

namespace lathe {

/// Which files of a data set's repository hold which split: split → files, sorted.
using SplitFiles = std::map<std::string, std::vector<std::string>>;

/// Of the branch refs/convert/parquet, into which the Hub puts what it converted:
/// <config>/<split>/<n>.parquet. Without a config: the only one there is, or else the one named "default".
/// Errors: kUsage, listing the configs, if it must be named or is not there; kUnsupported if the Hub
/// converted only the beginning of it.
SplitFiles converted_splits(const std::vector<std::string>& files, const std::optional<std::string>& config,
                            const std::string& name);

/// Of any other branch: files that read_table reads, by the word train, validation (valid, dev, val) or test
/// in their paths; a file without any of these words is training data.  With a config only those in
/// a folder of its name or named like it, or if there are none those that have it as a word ("en" in
/// "train-en.csv", not in "french.csv").  Parquet before csv and tsv before json, jsonl.
SplitFiles named_splits(const std::vector<std::string>& files, const std::optional<std::string>& config);

/// Whether the files named "…-00000-of-00003…" are complete.  Nothing if a name does not show it.
std::optional<bool> are_all_parts(const std::vector<std::string>& files);

/// Where to get a data set: its name on the Hub, its config.
struct HubDataset {
  std::string name;
  std::optional<std::string> config;
  std::string cache_dir;
};

/// Local files of the splits that are needed, each not empty.  They come from the cache, without the network,
/// if they are known to be complete (by the Hub's list when they were fetched, or by their names); else they
/// are fetched.  Offline, files that Python fetched and whose names do not tell are taken with a message. The
/// converted branch comes first if it has Parquet, then main. Errors: kNotFound, listing the
/// splits there are, and as fetch_snapshot; offline what is missing.
SplitFiles fetch_splits(FileSystem& fs, const HubDataset& dataset, const std::vector<std::string>& wanted,
                        const HubSettings& settings);

}  // namespace lathe
