#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/io/file_system.h"
#include "lathe/settings/training_arguments.h"

namespace lathe {

/// The checkpoints in the output_dir of a run: which are its own, and which of those stay.  All but
/// `find_best` want an output_dir.  Errors: kIo.
class CheckpointFolder {
 public:
  using Warn = std::function<void(const std::string&)>;
  /// `fs` and `args` must outlive it.
  CheckpointFolder(FileSystem& fs, const TrainingArguments& args, Warn warn)
      : fs_(fs), args_(args), warn_(std::move(warn)) {}

  /// …/checkpoint-<step>.
  std::string at_step(int64_t step) const;
  /// Clears what killed runs left in output_dir (leftovers.h) and names it in warnings.  Returns the names of
  /// what looks so, but is not proven to be theirs, and stays.
  std::vector<std::string> clear_leftovers() const;
  /// The last that a run can go on from; "" if there is none.  A warning where there are later ones, of
  /// --save_only_model.
  std::string to_go_on_from() const;
  /// The same for --resume_from_checkpoint true.  Errors: kNotFound.
  std::string wanted_to_go_on_from() const;
  /// What would count as this run's, being of later steps than it begins at, gets another name
  /// that nothing bears (old-checkpoint-N, else old-checkpoint-N-2 …), `resume_from` excepted, and is named
  /// in a warning.
  void set_aside_other_runs(int64_t first_step, const std::string& resume_from) const;
  /// A warning where the disk has no room for the checkpoints to come, as many of them as save_total_limit
  /// lets be there at once, and a model.
  void warn_of_space(int64_t to_come, uint64_t bytes_each, uint64_t model_bytes) const;
  /// Deletes the oldest beyond save_total_limit; the last and `best` stay, and so does what is no checkpoint
  /// but by its name.  Source: transformers'
  /// _sorted_checkpoints.
  void rotate(const std::optional<std::string>& best) const;
  /// Of the two that a limit of 1 leaves while a run may be stopped, the last and the best, the best stays.
  /// Source: the end of transformers' Trainer._inner_training_loop.
  void keep_best(const std::optional<std::string>& best) const;
  /// After a folder was moved, or named otherwise than before, the best checkpoint is looked for beside the
  /// one that the run goes on from, where its state says (`recorded`), and in output_dir.  A warning where it
  /// is nowhere.
  std::optional<std::string> find_best(const std::string& recorded, const std::string& resume_from) const;

 private:
  /// What has such a name and is the folder of a checkpoint, by step: what may be deleted.
  std::vector<std::string> real_checkpoints() const;

  FileSystem& fs_;
  const TrainingArguments& args_;
  Warn warn_;
};

/// Whether it is the name of a checkpoint that was set aside.
bool is_set_aside(const std::string& name);

}  // namespace lathe
