#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/environment.h"
#include "lathe/io/file_system.h"
#include "lathe/settings/training_arguments.h"

namespace lathe {

/// A path that a run reads on this machine: the value of a flag, whether it exists or not.
struct RunInput {
  enum class Kind { kModelFolder, kDataFolder, kDataFile };
  Kind kind;
  std::string flag, path;
};

/// From a script's arguments.
template <typename Script>
std::vector<RunInput> run_inputs(const Script& script) {
  const std::optional<std::string> model = script.model_name_or_path;
  std::vector<RunInput> inputs{
      {RunInput::Kind::kModelFolder, "--model_name_or_path", model.value_or("")},
      {RunInput::Kind::kModelFolder, "--config_name", script.config_name.value_or("")},
      {RunInput::Kind::kModelFolder, "--tokenizer_name", script.tokenizer_name.value_or("")},
      {RunInput::Kind::kDataFolder, "$LATHE_DATA_DIR", environment("LATHE_DATA_DIR")},
      {RunInput::Kind::kDataFile, "--train_file", script.train_file.value_or("")},
      {RunInput::Kind::kDataFile, "--validation_file", script.validation_file.value_or("")}};
  if constexpr (requires { script.test_file; })
    inputs.push_back({RunInput::Kind::kDataFile, "--test_file", script.test_file.value_or("")});
  if constexpr (requires { script.data_dir; })
    inputs.push_back({RunInput::Kind::kDataFolder, "--data_dir", script.data_dir.value_or("")});
  return inputs;
}

/// Refuses an output_dir in which a run's files would mix with others or replace them, however it is spelled:
/// the root folder and the home folder; for a training also a checkpoint and, unless it is the output folder
/// of an earlier run, the folder of the model and those of the data.  It warns about folders that are only
/// unusual.  Call it before the folder is made.  Errors: kUsage.
void check_output_folder(FileSystem& fs, const TrainingArguments& args, const std::vector<RunInput>& inputs,
                         const std::function<void(const std::string&)>& warn);

/// Whether the folder holds only what a run leaves that ended before its first checkpoint.
bool is_left_over(const std::vector<std::string>& names);

/// Makes and removes a folder there, because permissions do not tell everything (read-only disks, /proc).
/// Errors: kIo.
void check_writable(FileSystem& fs, const std::string& folder);

}  // namespace lathe
