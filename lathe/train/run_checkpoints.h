#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "lathe/core/log.h"
#include "lathe/engine/session.h"
#include "lathe/io/descriptor_reserve.h"
#include "lathe/io/leftovers.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/checkpoint_folder.h"
#include "lathe/train/training_plan.h"

namespace lathe {

/// What a run leaves on the disk: models, and checkpoints in its output_dir.  With several ranks the first
/// one writes.
class RunCheckpoints {
 public:
  /// All must outlive it.
  RunCheckpoints(FileSystem& fs, const TrainingArguments& args, const AutoModel& model, Session& session,
                 LogSink say);

  /// Whether this process keeps checkpoints, and where.
  bool keeps() const;
  CheckpointFolder folder() const;
  /// "Last good checkpoint: ...", or that there is none.
  std::string where_to_go_on() const;

  /// The run trains while this object lives.  It clears what killed runs left in output_dir, and writes a
  /// note about what this run may leave.  At its end it removes the note and frees the descriptors.
  class Training {
   public:
    explicit Training(RunCheckpoints& run) : run_(run) { run_.take_folder(); }
    ~Training() { run_.reserve_.release(), run_.note_.reset(); }
    Training(const Training&) = delete;
    Training& operator=(const Training&) = delete;

   private:
    RunCheckpoints& run_;
  };
  /// Renames other runs' checkpoints, and warns if the disk is too small.
  void make_way(const TrainingPlan& plan, const TrainerState& state, const std::string& resume_from);
  /// Reserves the descriptors that the next checkpoint needs; warns once if there are not enough.
  void hold_descriptors();
  void release_descriptors() { reserve_.release(); }

  /// Writes …/checkpoint-<step>, by all ranks. learning_rate: of the next update.  Returns the folder.
  std::string save(const RunProgress& progress, double learning_rate, bool only_model);
  /// Loads the weights of the best checkpoint into this process; warns if there is none.
  /// Errors: kInvalidData if they are not the weights that were written.
  void load_best(const TrainerState& state);
  /// Loads the weights of a folder into this process.
  LoadReport load(const std::string& folder);
  /// Writes weights, configuration and tokenizer into a folder.  Errors: kUsage if `folder` is empty.
  void save_model(const std::string& folder);

 private:
  void take_folder();
  void write(const std::string& folder, const RunProgress& progress, double learning_rate, bool only_model);

  FileSystem& fs_;
  const TrainingArguments& args_;
  const AutoModel& model_;
  Session& session_;
  LogSink say_;
  std::optional<LeftoversNote> note_;   // in output_dir, while it trains
  DescriptorReserve reserve_;           // between checkpoints
  bool descriptors_are_short_ = false;  // and the user was told
};

}  // namespace lathe
