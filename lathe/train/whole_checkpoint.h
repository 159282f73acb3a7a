#pragma once
#include <map>
#include <string>

#include "lathe/io/file_digests.h"
#include "lathe/io/file_system.h"
#include "lathe/io/safetensors.h"

namespace lathe {

/// What Lathe keeps in a checkpoint beside the files of Python's Trainer; written last.
inline constexpr const char* kStateFile = "lathe_state.safetensors";

/// Of checkpoints.  1: kStateFile holds AdamW's moments, too; 2: optimizer.pt has them; 3: kStateFile holds
/// digests of all other files and of itself.
inline constexpr int kCheckpointFormat = 3;

/// The metadata of kStateFile with the digests of the other files, and one of the metadata.
std::map<std::string, std::string> sealed(std::map<std::string, std::string> metadata,
                                          const FileDigests& files);

/// Errors: kNotFound; kInvalidData where it is not as it was written, or its format is newer.
SafetensorsFile open_state(FileSystem& fs, const std::string& folder);
/// 1 to kCheckpointFormat.  Errors: kInvalidData.
int format_of(const SafetensorsFile& state, const std::string& path);
const std::string& metadata_at(const SafetensorsFile& state, const std::string& key, const std::string& path);

/// Whether every file of a checkpoint is as it was written; false: it holds no digests that would tell, being
/// of an older format or of Hugging Face's Trainer.  All files are read.
/// Errors: kInvalidData, naming the files that are not and the last older checkpoint beside it whose files
/// all are; kIo where one cannot be read.
bool check_whole(FileSystem& fs, const std::string& folder);

/// The same of the weights only.
void check_weights_whole(FileSystem& fs, const std::string& folder);

}  // namespace lathe
