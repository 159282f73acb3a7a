#pragma once
#include <string>

#include "lathe/io/hub/hub_client.h"
#include "lathe/settings/training_arguments.h"

namespace lathe {

/// Makes the repository that the arguments name (default: the last name of output_dir) unless it is there.
/// A script does so before the training, so that a missing right costs no hours.  Returns its whole name.
/// Errors: as create_repository.
std::string make_repository(const TrainingArguments& args, const HubSettings& hub);

/// Uploads the output folder as one commit, as Trainer.push_to_hub does: without checkpoints and without
/// files that begin with '_' or '.'.  repository: what make_repository returned.  Returns the commit's
/// address. Errors: as upload_files, with the way to try again.
std::string push_to_hub(FileSystem& fs, const TrainingArguments& args, const std::string& repository,
                        const std::string& message, const HubSettings& hub);

}  // namespace lathe
