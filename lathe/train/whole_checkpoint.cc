#include "lathe/train/whole_checkpoint.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/io/digest.h"
#include "lathe/io/json_file.h"
#include "lathe/io/model_folder.h"
#include "lathe/train/adapter/adapter_config.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/python/python_checkpoint.h"
#include "lathe/train/python/saved_arguments.h"

namespace lathe {
namespace {

constexpr const char* kFiles = "files";
constexpr const char* kSeal = "sha256";
constexpr int kFirstSealedFormat = 3;

/// Over names and texts of all metadata but itself, each preceded by its length.
std::string seal_of(const std::map<std::string, std::string>& metadata) {
  Sha256 hash;
  for (const auto& [key, text] : metadata) {
    if (key == kSeal) continue;
    hash.add(as_bytes(fmt::format("{} {} {} ", key.size(), key, text.size())));
    hash.add(as_bytes(text));
  }
  return hash.take_hex();
}

/// 0 where there is no number.
int written_format(const SafetensorsFile& state, const std::string& path) {
  const std::string& text = metadata_at(state, "format_version", path);
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// The digests of a checkpoint; empty if it has none.  Errors: as open_state, format_of.
std::optional<FileDigests> digests_of(FileSystem& fs, const std::string& folder) {
  const std::string path = join_path(folder, kStateFile);
  if (!fs.exists(path)) {
    fs.can_look_for(path).check();
    if (fs.exists(join_path(folder, kOptimizerFile)) && fs.exists(join_path(folder, kArgumentsFile)))
      fail(ErrorCode::kInvalidData,
           "{}: missing, though Lathe wrote this checkpoint, as {} shows (remove that file, too, and it "
           "counts "
           "as one of Hugging Face's Trainer)",
           path, kArgumentsFile);
    return std::nullopt;
  }
  const SafetensorsFile state = open_state(fs, folder);
  if (format_of(state, path) < kFirstSealedFormat) return std::nullopt;
  const std::string where = fmt::format("{}: \"{}\"", path, kFiles);
  return file_digests_from(parse_json(metadata_at(state, kFiles, path), where), where);
}

bool holds_weights(const std::string& name) {
  return is_weights_file(name) || name == kAdapterFile || name == kAdapterConfigFile;
}

/// Files that are not as they were written; empty if the digests are missing.  Errors: kIo; also if the
/// format is newer.
std::optional<std::vector<FileFault>> faults_in(FileSystem& fs, const std::string& folder,
                                                bool weights_only = false) {
  std::optional<FileDigests> digests;
  try {
    digests = digests_of(fs, folder);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidData) throw;
    return {{{kStateFile, {error.code(), error.what()}}}};
  }
  if (!digests) return std::nullopt;
  std::vector<FileFault> faults;
  // Of two weights files, readers take the one that is not listed.
  if (const std::string weights = weights_file(fs, folder); !weights.empty() && !digests->contains(weights))
    faults.push_back(
        {weights,
         {ErrorCode::kInvalidData,
          fmt::format("{}: found weights that were not written with this checkpoint; remove them",
                      join_path(folder, weights))}});
  if (weights_only) std::erase_if(*digests, [](const auto& item) { return !holds_weights(item.first); });
  for (FileFault& fault : faults_of(fs, folder, *digests)) {
    if (fault.status.code() == ErrorCode::kIo) fault.status.check();
    faults.push_back(std::move(fault));
  }
  return faults;
}

bool is_whole(FileSystem& fs, const std::string& folder) {
  try {
    const auto faults = faults_in(fs, folder);
    return faults && faults->empty();
  } catch (const Error&) {  // it cannot be read, or not yet
    return false;
  }
}

/// The last whole checkpoint before this one, in the same folder; empty if there is none.
std::string whole_one_before(FileSystem& fs, const std::string& folder) {
  const int64_t step = checkpoint_step(file_name(folder));
  std::vector<std::string> others = checkpoints(fs, parent_folder(folder));
  std::erase_if(others, [&](const std::string& other) {
    return step >= 0 && checkpoint_step(file_name(other)) >= step;
  });
  const auto found =
      std::find_if(others.rbegin(), others.rend(), [&](const auto& other) { return is_whole(fs, other); });
  return found == others.rend() ? "" : *found;
}

std::string text_of(const std::vector<FileFault>& faults) {
  std::string text = faults[0].status.message();
  for (size_t i = 1; i < faults.size(); ++i)
    text += fmt::format("{}{}", i == 1 ? "; nor are whole: " : ", ", faults[i].name);
  return text;
}

bool is_of_model(const std::string& name) {
  return holds_weights(name) || name == "config.json" ||
         std::ranges::find(kTokenizerFiles, name) != kTokenizerFiles.end();
}

}  // namespace

std::map<std::string, std::string> sealed(std::map<std::string, std::string> metadata,
                                          const FileDigests& files) {
  metadata[kFiles] = to_json(files).dump();
  metadata[kSeal] = seal_of(metadata);
  return metadata;
}

const std::string& metadata_at(const SafetensorsFile& state, const std::string& key,
                               const std::string& path) {
  const auto it = state.metadata().find(key);
  if (it == state.metadata().end())
    fail(ErrorCode::kInvalidData, "{}: \"{}\" is missing in the header; was it written by Lathe?", path, key);
  return it->second;
}

SafetensorsFile open_state(FileSystem& fs, const std::string& folder) {
  const std::string path = join_path(folder, kStateFile);
  SafetensorsFile state = SafetensorsFile::open(fs, path);
  const auto& metadata = state.metadata();
  const bool has_seal = metadata.contains(kSeal), has_files = metadata.contains(kFiles);
  const int format = written_format(state, path);
  const bool is_sealed = has_seal || has_files || format == kCheckpointFormat || format == kAdapterFormat;
  if (is_sealed && (!has_seal || metadata.at(kSeal) != seal_of(metadata)))
    fail(ErrorCode::kInvalidData, "{}: found another header than was written", path);
  return state;
}

int format_of(const SafetensorsFile& state, const std::string& path) {
  const int format = written_format(state, path);
  if (format < 1 || format > kAdapterFormat)
    fail(ErrorCode::kUnsupported, "{}: format version {}, this Lathe reads up to {}; use a newer one", path,
         metadata_at(state, "format_version", path), kAdapterFormat);
  return format;
}

bool check_whole(FileSystem& fs, const std::string& folder) {
  const auto faults = faults_in(fs, folder);
  if (!faults) return false;
  if (faults->empty()) return true;
  const std::string older = whole_one_before(fs, folder);
  const std::string with_weights =
      std::ranges::any_of(*faults, is_of_model, &FileFault::name)
          ? ""
          : fmt::format(", or with the weights of this one by --model_name_or_path {}", folder);
  fail(ErrorCode::kInvalidData,
       "{}: the checkpoint is damaged, or was edited. {}; a new run begins without, by "
       "--overwrite_output_dir{}",
       text_of(*faults),
       older.empty() ? "No older one beside it is known to be whole"
                     : fmt::format("The last whole one before it is {}: --resume_from_checkpoint {} goes on "
                                   "from there",
                                   older, older),
       with_weights);
}

void check_weights_whole(FileSystem& fs, const std::string& folder) {
  const auto faults = faults_in(fs, folder, true);
  if (faults && !faults->empty())
    fail(ErrorCode::kInvalidData, "{}: the checkpoint is damaged, or was edited", text_of(*faults));
}

bool holds_model_of(FileSystem& fs, const std::string& folder, const std::string& checkpoint) {
  auto digests = digests_of(fs, checkpoint);
  const std::string weights = is_adapter(fs, folder) ? kAdapterFile : weights_file(fs, folder);
  if (!digests || !digests->contains(weights)) return false;
  std::erase_if(*digests, [](const auto& item) { return !is_of_model(item.first); });
  return faults_of(fs, folder, *digests).empty();
}

}  // namespace lathe
