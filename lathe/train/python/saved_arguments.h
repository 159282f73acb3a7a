#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/io/file_system.h"
#include "lathe/settings/training_arguments.h"

namespace lathe {

inline constexpr const char* kArgumentsFile = "training_args.json";  ///< which only Lathe writes

/// Writes training_args.json, every field as to_json gives it, and training_args.bin, which torch.load with
/// weights_only=False makes a transformers.TrainingArguments of: its fields under their names, enumerations
/// as such, no secrets, none of Lathe's own; and what __post_init__ sets, so that a Trainer takes it, for one
/// process on `device`, a DeviceInfo::kind.  As transformers' own it trains on a machine like this one;
/// dataclasses.replace of it, which runs __post_init__ anew, on others and in transformers 4, too.
/// Source: transformers 5.24 trainer.py, _save; training_args.py, __post_init__; accelerate 1.15 state.py.
Status write_arguments(FileSystem& fs, const std::string& folder, const TrainingArguments& args,
                       std::string_view device);

/// The fields of training_args.json, else of training_args.bin (an enumeration is its value, an object the
/// dict of its attributes), by name; empty if neither is there.
/// Errors: kInvalidData; kUnsupported for a pickle that is no object with attributes.
std::optional<nlohmann::json> read_arguments(FileSystem& fs, const std::string& folder);

/// A field of numeric_fields() in which a checkpoint's arguments are other ones, and both values as text.
struct ArgumentDifference {
  std::string name, there, here;
};
/// All of them; none if there is no file.  Errors: those of read_arguments.
std::vector<ArgumentDifference> argument_differences(FileSystem& fs, const std::string& folder,
                                                     TrainingArguments here);

}  // namespace lathe
