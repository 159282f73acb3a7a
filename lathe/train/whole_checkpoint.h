#pragma once
#include <map>
#include <string>

#include "lathe/io/file_digests.h"
#include "lathe/io/file_system.h"
#include "lathe/io/safetensors.h"

namespace lathe {

/// The file of a checkpoint that only Lathe writes, next to those of Python's Trainer; written last.
inline constexpr const char* kStateFile = "lathe_state.safetensors";

/// The format of checkpoints.  1: kStateFile also holds AdamW's moments; 2: optimizer.pt has them; 3:
/// kStateFile holds digests of all other files and of itself.
inline constexpr int kCheckpointFormat = 3;
/// The same of a checkpoint of an adapter, which holds no model: older Lathes refuse it.
inline constexpr int kAdapterFormat = 4;

/// The metadata of kStateFile plus the digests of the other files and one of the metadata.
std::map<std::string, std::string> sealed(std::map<std::string, std::string> metadata,
                                          const FileDigests& files);

/// Errors: kNotFound; kInvalidData if it is not as it was written, or if its format is newer.
SafetensorsFile open_state(FileSystem& fs, const std::string& folder);
/// 1 to kAdapterFormat.  Errors: kInvalidData.
int format_of(const SafetensorsFile& state, const std::string& path);
const std::string& metadata_at(const SafetensorsFile& state, const std::string& key, const std::string& path);

/// Whether every file of a checkpoint is as it was written.  False: it has no digests to tell, because its
/// format is older or it is from Hugging Face's Trainer.  Reads all files.
/// Errors: kInvalidData, naming the changed files and the last older checkpoint next to it that is whole; kIo
/// if a file cannot be read.
bool check_whole(FileSystem& fs, const std::string& folder);

/// The same for the weights only.
void check_weights_whole(FileSystem& fs, const std::string& folder);

/// Whether a folder holds, byte for byte, the model that was written with a checkpoint.  False also if the
/// checkpoint has no digests.  Errors: as check_whole for what tells them.
bool holds_model_of(FileSystem& fs, const std::string& folder, const std::string& checkpoint);

}  // namespace lathe
