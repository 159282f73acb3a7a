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

/// The checkpoints in the output_dir of a run: which belong to it, and which of them stay.  All functions but
/// `find_best` need an output_dir.  Errors: kIo.
class CheckpointFolder {
 public:
  using Warn = std::function<void(const std::string&)>;
  /// `fs` and `args` must outlive it.
  CheckpointFolder(FileSystem& fs, const TrainingArguments& args, Warn warn)
      : fs_(fs), args_(args), warn_(std::move(warn)) {}

  /// …/checkpoint-<step>.
  std::string at_step(int64_t step) const;
  /// Clears what killed runs left in output_dir (leftovers.h) and names it in warnings.  Returns the names of
  /// what looks like a leftover but is not proven to be one; that stays.
  std::vector<std::string> clear_leftovers() const;
  /// The last checkpoint that a run can continue from; "" if there is none.  Warns if there are later ones,
  /// written with --save_only_model.
  std::string to_go_on_from() const;
  /// The same for --resume_from_checkpoint true.  Errors: kNotFound.
  std::string wanted_to_go_on_from() const;
  /// Renames checkpoints of later steps than this run begins at, because they would count as this run's, and
  /// names them in a warning.  The new name is one that is still free (old-checkpoint-N, else
  /// old-checkpoint-N-2 …).  `resume_from` keeps its name.
  void set_aside_other_runs(int64_t first_step, const std::string& resume_from) const;
  /// Warns if the disk has no room for a model and the checkpoints to come, as many of them as
  /// save_total_limit allows at the same time.
  void warn_of_space(int64_t to_come, uint64_t bytes_each, uint64_t model_bytes) const;
  /// Deletes the oldest checkpoints beyond save_total_limit.  The last and `best` stay; so does anything that
  /// only has the name of a checkpoint.  Source: transformers' _sorted_checkpoints.
  void rotate(const std::optional<std::string>& best) const;
  /// With a limit of 1 two checkpoints stay while a run may be stopped: the last and the best.  This keeps
  /// the best.
  /// Source: the end of transformers' Trainer._inner_training_loop.
  void keep_best(const std::optional<std::string>& best) const;
  /// Finds the best checkpoint, also after a folder was moved or renamed.  Looks next to the checkpoint that
  /// the run continues from, where its state says (`recorded`), and in output_dir.  Warns if it is in none of
  /// these.
  std::optional<std::string> find_best(const std::string& recorded, const std::string& resume_from) const;

 private:
  /// Folders that have the name and the content of a checkpoint, by step: these may be deleted.
  std::vector<std::string> real_checkpoints() const;

  FileSystem& fs_;
  const TrainingArguments& args_;
  Warn warn_;
};

/// Whether this is the name of a checkpoint that was set aside.
bool is_set_aside(const std::string& name);

}  // namespace lathe
