#include "lathe/data/hub_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <set>

#include "lathe/data/parquet.h"
#include "lathe/data/table.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

constexpr const char* kConverted = "refs/convert/parquet";

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts{""};
  for (const char c : path) {
    if (c == '/')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

/// Letters and digits between other characters: "data/train-00000.csv" → data, train, 00000, csv.
std::set<std::string> words_of(const std::string& path) {
  std::set<std::string> words;
  std::string word;
  for (const char c : to_lower(path) + "/") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else {
      words.insert(word);
      word.clear();
    }
  }
  return words;
}

/// 0 is the best kind of file; none for what cannot be read.
std::optional<int> rank_of(const std::string& path) {
  if (is_parquet(path)) return 0;
  const auto format = table_format_of(path);
  if (format == TableFormat::kCsv || format == TableFormat::kTsv) return 1;
  if (format == TableFormat::kJson || format == TableFormat::kJsonLines) return 2;
  return std::nullopt;
}

bool is_part_of(const std::string& path, const std::string& config) {
  const std::vector<std::string> parts = parts_of(path);
  return std::find(parts.begin(), parts.end(), config) != parts.end() ||
         parts.back().substr(0, parts.back().find('.')) == config;
}

bool is_word_in(const std::string& path, const std::string& config) {
  const auto ends_at = [&](size_t at) {
    return at >= path.size() || std::isalnum(static_cast<unsigned char>(path[at])) == 0;
  };
  for (size_t at = path.find(config); at != std::string::npos; at = path.find(config, at + 1))
    if ((at == 0 || ends_at(at - 1)) && ends_at(at + config.size())) return true;
  return false;
}

/// The files that belong to a configuration, by their names.
std::vector<std::string> files_of(const std::string& config, const std::vector<std::string>& files) {
  std::vector<std::string> parts, words;
  for (const std::string& file : files) {
    if (is_part_of(file, config)) parts.push_back(file);
    if (is_word_in(file, config)) words.push_back(file);
  }
  return parts.empty() ? words : parts;
}

/// Rows, and not a description of them.
bool holds_rows(const std::string& path) {
  const std::string base = file_name(path);
  return rank_of(path) && base != "dataset_infos.json" && base != "dataset_info.json" &&
         !base.starts_with(".");
}

/// <config>/<split>/<n>.parquet.
bool is_converted(const std::string& path) { return is_parquet(path) && parts_of(path).size() == 3; }

std::string split_of(const std::string& path) {
  const std::set<std::string> words = words_of(path);
  for (const auto& [word, split] :
       std::vector<std::pair<const char*, const char*>>{{"test", "test"},
                                                        {"validation", "validation"},
                                                        {"valid", "validation"},
                                                        {"dev", "validation"},
                                                        {"val", "validation"},
                                                        {"eval", "validation"},
                                                        {"train", "train"}})
    if (words.contains(word)) return split;
  return "train";
}

template <typename Names>
std::string joined(const Names& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string> names_of(const SplitFiles& splits) {
  std::vector<std::string> names;
  for (const auto& [split, files] : splits) names.push_back(split);
  return names;
}

/// All files below a snapshot, as the Hub names them.
std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error))
    if (it->is_regular_file(error)) files.push_back(it->path().lexically_relative(folder).generic_string());
  std::sort(files.begin(), files.end());
  return files;
}

SplitFiles splits_of(const std::vector<std::string>& files, const HubDataset& dataset,
                     const std::string& revision) {
  return revision == kConverted ? converted_splits(files, dataset.config, dataset.name)
                                : named_splits(files, dataset.config);
}

SplitFiles only(const SplitFiles& splits, const std::vector<std::string>& wanted, const std::string& folder) {
  SplitFiles out;
  for (const std::string& split : wanted)
    if (const auto found = splits.find(split); found != splits.end())
      for (const std::string& file : found->second) out[split].push_back(join_path(folder, file));
  return out;
}

/// Whether what is here of a split, without the Hub's listing, is all of it.
bool is_taken_for_whole(const HubDataset& dataset, const std::string& split,
                        const std::vector<std::string>& files, const HubSettings& settings) {
  if (const auto all = are_all_parts(files)) return *all;
  if (!settings.offline) return false;  // the Hub knows
  if (settings.message)
    settings.message(
        fmt::format("data set \"{}\": {} is taken as it lies in the cache, {} files: whether there "
                    "are more is not known offline",
                    dataset.name, split, files.size()));
  return true;
}

/// What is in the cache of a revision, if that is all that is wanted.
std::optional<SplitFiles> cached_splits(FileSystem& fs, const HubDataset& dataset,
                                        const std::vector<std::string>& wanted, const std::string& revision,
                                        const HubSettings& settings) {
  const HubCache cache(fs, hub_cache_folder(dataset.cache_dir), {RepoKind::kDataset, dataset.name, revision});
  const std::string commit = cache.commit_of(revision), folder = cache.snapshot(commit);
  if (commit == revision || !fs.is_directory(folder)) return std::nullopt;
  const auto listed = cache.remembered_files(commit);
  HubDataset asked = dataset;
  // The only configuration that is here may be one of several.
  if (!listed && revision == kConverted && !asked.config) asked.config = "default";
  SplitFiles splits;
  try {
    splits = splits_of(listed ? *listed : files_below(folder), asked, revision);
  } catch (const Error&) {
    if (listed && settings.offline) throw;
    return std::nullopt;  // what is here may be a part; only the Hub knows all of it
  }
  for (const std::string& split : wanted) {
    const auto& files = splits[split];
    const auto is_here = [&](const std::string& file) { return fs.exists(cache.file(commit, file)); };
    if (files.empty() || !std::all_of(files.begin(), files.end(), is_here)) return std::nullopt;
    if (!listed && !is_taken_for_whole(dataset, split, files, settings)) return std::nullopt;
  }
  return only(splits, wanted, folder);
}

/// Whether the Hub converted anything of a data set.
bool has_converted(const HubRepo& repo, const HubSettings& settings) {
  const auto listing = HubClient(settings, repo).list_if_there();
  return listing && std::any_of(listing->files.begin(), listing->files.end(), is_converted);
}

[[noreturn]] void fail_without_split(const HubDataset& dataset, const std::string& split,
                                     const SplitFiles& splits, const std::vector<std::string>& files) {
  if (splits.empty() && dataset.config && !named_splits(files, std::nullopt).empty())
    fail(ErrorCode::kUsage,
         "--dataset_config_name: data set \"{}\": found \"{}\", expected what stands as a word in the path "
         "of a "
         "file with rows: give another, or leave it out to take them all",
         dataset.name, *dataset.config);
  fail(ErrorCode::kNotFound,
       "data set \"{}\"{} has no split {}; it has {}: give own files (--train_file, --validation_file, "
       "--test_file) or leave out what needs it",
       dataset.name, dataset.config ? " (" + *dataset.config + ")" : "", split,
       splits.empty() ? "no Parquet, csv, tsv or json files" : joined(names_of(splits)));
}

/// Nothing where the Hub has nothing converted.
std::optional<SplitFiles> fetched_splits(FileSystem& fs, const HubDataset& dataset,
                                         const std::vector<std::string>& wanted, const std::string& revision,
                                         const HubSettings& settings) {
  const HubRepo repo{RepoKind::kDataset, dataset.name, revision};
  if (revision == kConverted && !has_converted(repo, settings)) return std::nullopt;
  SplitFiles splits;
  std::vector<std::string> listed;
  const std::string folder = fetch_snapshot(
      fs, repo, dataset.cache_dir, settings, [&](const std::vector<std::string>& files, const ReadFile&) {
        listed = files;
        splits = splits_of(files, dataset, revision);
        std::vector<std::string> out;
        for (const std::string& split : wanted) {
          if (!splits.contains(split)) fail_without_split(dataset, split, splits, files);
          out.insert(out.end(), splits[split].rbegin(), splits[split].rend());
        }
        return out;
      });
  HubCache(fs, hub_cache_folder(dataset.cache_dir), repo).remember_files(file_name(folder), listed);
  return only(splits, wanted, folder);
}

}  // namespace

SplitFiles converted_splits(const std::vector<std::string>& files, const std::optional<std::string>& config,
                            const std::string& name) {
  std::map<std::string, SplitFiles> configs;
  for (const std::string& file : files)
    if (is_converted(file)) configs[parts_of(file)[0]][parts_of(file)[1]].push_back(file);
  std::vector<std::string> names;
  for (const auto& [known, splits] : configs) names.push_back(known);
  std::string chosen = config.value_or(names.size() == 1 ? names[0] : "default");
  const auto found = configs.find(chosen);
  if (found == configs.end())
    fail(ErrorCode::kUsage, "--dataset_config_name: data set \"{}\": {}, expected one of {}", name,
         config ? "found " + *config : "found none", joined(names));
  for (auto& [split, paths] : found->second) {
    if (split.starts_with("partial-"))
      fail(ErrorCode::kUnsupported,
           "data set \"{}\": the Hub converted only the beginning of {} to Parquet: fetch its own files with "
           "`hf "
           "download --repo-type dataset {}` and give them as --train_file and --validation_file",
           name, split.substr(8), name);
    std::sort(paths.begin(), paths.end());
  }
  return found->second;
}

SplitFiles named_splits(const std::vector<std::string>& files, const std::optional<std::string>& config) {
  std::vector<std::string> tables;
  std::copy_if(files.begin(), files.end(), std::back_inserter(tables), holds_rows);
  std::map<int, SplitFiles> by_rank;
  for (const std::string& file : config ? files_of(*config, tables) : tables)
    by_rank[*rank_of(file)][split_of(file)].push_back(file);
  if (by_rank.empty()) return {};
  SplitFiles out = by_rank.begin()->second;
  for (auto& [split, paths] : out) std::sort(paths.begin(), paths.end());
  return out;
}

namespace {

/// A file NAME-00003-of-00012.EXTENSION.
struct Part {
  std::string kind;  ///< its name without its own number
  size_t count;      ///< of the files of that kind
  std::string number;
};

std::optional<Part> part_of(const std::string& file) {
  constexpr std::string_view kOf = "-of-";
  const auto digits_from = [&](size_t at) {
    return std::min(file.find_first_not_of("0123456789", at), file.size());
  };
  for (size_t of = file.rfind(kOf); of != std::string::npos && of > 0; of = file.rfind(kOf, of - 1)) {
    const size_t count = of + kOf.size(), dot = digits_from(count);
    const size_t dash = file.find_last_not_of("0123456789", of - 1);
    if (dot == count || dot == file.size() || file[dot] != '.') continue;
    if (dash == std::string::npos || dash + 1 == of || file[dash] != '-') continue;
    if (file.find('/', dot) != std::string::npos) return std::nullopt;
    return Part{file.substr(0, dash) + file.substr(of),
                static_cast<size_t>(std::strtoull(file.c_str() + count, nullptr, 10)),
                file.substr(dash + 1, of - dash - 1)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<bool> are_all_parts(const std::vector<std::string>& files) {
  std::map<std::string, std::pair<size_t, std::set<std::string>>>
      kinds;  // name → how many there are, which are here
  for (const std::string& file : files) {
    const auto part = part_of(file);
    if (!part) return std::nullopt;
    auto& [count, found] = kinds[part->kind];
    count = part->count;
    found.insert(part->number);
  }
  return std::all_of(kinds.begin(), kinds.end(),
                     [](const auto& kind) { return kind.second.first == kind.second.second.size(); });
}

SplitFiles fetch_splits(FileSystem& fs, const HubDataset& dataset, const std::vector<std::string>& wanted,
                        const HubSettings& settings) {
  if (!is_hub_name(dataset.name))
    fail(ErrorCode::kUsage,
         "--dataset_name: found \"{}\", expected a name on the Hub such as squad or nyu-mll/glue",
         dataset.name);
  for (const char* revision : {kConverted, "main"})
    if (auto found = cached_splits(fs, dataset, wanted, revision, settings)) return *found;
  if (settings.offline)
    fail(ErrorCode::kNotFound,
         "data set \"{}\": {} not all on this machine (looked below {}), and HF_HUB_OFFLINE is set: unset it "
         "to fetch "
         "what is missing, or give own files (--train_file, --validation_file, --test_file)",
         dataset.name, joined(wanted), hub_cache_folder(dataset.cache_dir));
  if (auto found = fetched_splits(fs, dataset, wanted, kConverted, settings)) return *found;
  return *fetched_splits(fs, dataset, wanted, "main", settings);
}

}  // namespace lathe
