#pragma once
#include <string>

#include "lathe/app/terminal/terminal.h"
#include "lathe/io/file_system.h"
#include "lathe/settings/training_arguments.h"

namespace lathe {

/// --push_to_hub makes the repository before the training, so that a missing right costs no hours.  Returns
/// its whole name.  Errors: as create_repository.
std::string make_repository(Terminal& terminal, const TrainingArguments& args);

/// Uploads the output folder without checkpoints and files that begin with '_' or '.', as
/// Trainer.push_to_hub does.  repository: what make_repository returned.  Errors: as upload_files, with the
/// way to try again.
void push_to_hub(FileSystem& fs, Terminal& terminal, const TrainingArguments& args,
                 const std::string& repository);

}  // namespace lathe
