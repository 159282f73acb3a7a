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
/// Errors: kUsage, listing the configs, where it must be named or is not there; kUnsupported for one of which
/// the Hub converted only the beginning.
SplitFiles converted_splits(const std::vector<std::string>& files, const std::optional<std::string>& config,
                            const std::string& name);

/// Of any other branch: files that read_table reads, by the word train, validation (valid, dev, val) or test
/// in their paths; a file without any of these words is training data.  With a config only those in
/// a folder of its name or named like it, or if there are none those that have it as a word ("en" in
/// "train-en.csv", not in "french.csv").  Parquet before csv and tsv before json, jsonl.
SplitFiles named_splits(const std::vector<std::string>& files, const std::optional<std::string>& config);

/// Whether files that are named "…-00000-of-00003…" are all there are of them.  Nothing where a name does not
/// tell.
std::optional<bool> are_all_parts(const std::vector<std::string>& files);

/// Where a data set is to be had: its name on the Hub, its config.
struct HubDataset {
  std::string name;
  std::optional<std::string> config;
  std::string cache_dir;
};

/// Local files of the splits that are wanted, each not empty: from the cache where they are there and
/// known to be all (by what the Hub listed when they were fetched, or by their names), without the network,
/// else fetched.  Offline, files that Python fetched and whose names do not tell are taken with a message.
/// The converted branch comes first where there is Parquet in it, then main. Errors: kNotFound, listing the
/// splits there are, and as fetch_snapshot; offline what is missing.
SplitFiles fetch_splits(FileSystem& fs, const HubDataset& dataset, const std::vector<std::string>& wanted,
                        const HubSettings& settings);

}  // namespace lathe
