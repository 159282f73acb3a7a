#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/engine/parameters.h"
#include "lathe/engine/program_cache.h"
#include "lathe/engine/step_inputs.h"

namespace lathe {

/// A model on a device: runs its programs over its parameters.  Not for several threads at once.
class Session {
 public:
  struct Options {
    int64_t num_labels = 2;  ///< columns of float targets
    ProgramOptions program;
    size_t cached_programs = 128;  ///< programs kept, 1 at least; the one unused longest goes first
    bool shard_states = false;     ///< each rank keeps its part (shards.h) of what the optimizer keeps
  };

  /// A run that was started; `collect` waits for it.
  struct Pending {
    std::shared_ptr<const CompiledProgram> compiled;
    Event event;
    bool gives(Output output) const { return compiled->gives(output); }
  };
  /// 0 where the run does not give it.
  struct Outcome {
    float loss = 0, grad_norm = 0;  ///< both without loss scale
    float stop = 0;                 ///< ranks that were asked to stop
  };

  /// Allocates parameters and optimizer state, all zero.  `model` and `backend` must outlive the session.
  /// Where the backend has a group, its ranks train together: an update is of the mean of their losses.
  Session(Backend& backend, TaskModel& model, const Options& options);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  ProgramCache& programs() { return programs_; }
  const ProgramCache& programs() const { return programs_; }

  /// One whole update on one batch.  With `base` the head alone runs; the base must be frozen then.
  /// Errors, as of all runs: kInvalidData for a batch that the model cannot read; kUsage where a row is
  /// longer than ProgramCache::expect_rows was told.
  Pending step(const PackedBatch& batch, const StepScalars& scalars, BaseRows base = {});
  /// What `step` runs for such a batch, without running it.
  struct StepPlan {
    std::shared_ptr<const CompiledProgram> compiled;
    Launches launches;  ///< Executable::launches
  };
  StepPlan plan_step(const PackedBatch& batch, const StepScalars& scalars);
  /// Adds the gradients of one micro-batch; then `update` ends the step.
  Pending accumulate(const PackedBatch& batch, const StepScalars& scalars, BaseRows base = {});
  Pending update(const StepScalars& scalars);
  Outcome collect(const Pending& pending) const;

  /// Forward pass without dropout, in `dtype` if it is given.  logits: as the problem says, rows of tokens
  /// after the last row left out.  Returns the loss where the batch has targets, else 0.
  /// quantization: of the base's linear layers.
  float evaluate(const PackedBatch& batch, std::vector<float>& logits, BaseRows base = {},
                 std::optional<DType> dtype = {}, nn::Quantization quantization = nn::Quantization::kNone);
  /// Runs the base alone, without dropout.  Rows as in BaseRows.
  void run_base(const PackedBatch& batch, std::vector<std::byte>& rows);
  size_t base_row_bytes() const;

  Backend& backend() const { return backend_; }
  const TaskModel& model() const { return model_; }
  /// How batches must be filled up.
  TokenRounding token_rounding() const { return backend_.info().token_rounding; }
  /// The backend's; null: this process trains alone.
  ProcessGroup* group() const { return backend_.group(); }
  int ranks() const { return options_.program.ranks; }

 private:
  /// Fills the slot for such a run, and compiles its program.
  struct Ready {
    std::shared_ptr<const CompiledProgram> compiled;
    const Slot& slot;
  };
  Ready ready(Work work, const PackedBatch* batch, const StepScalars& scalars, BaseRows base);
  Pending run(const Work& work, const PackedBatch* batch, const StepScalars& scalars, BaseRows base = {});

  Backend& backend_;
  const TaskModel& model_;
  Options options_;
  Parameters parameters_;
  ProgramCache programs_;
  StepInputs inputs_;
};

}  // namespace lathe
