#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/engine/parameters.h"
#include "lathe/engine/program_cache.h"
#include "lathe/engine/step_inputs.h"

namespace lathe {

/// A model on a device: runs its programs over its parameters.  Not for several threads at the same time.
class Session {
 public:
  struct Options {
    ProgramOptions program;
    size_t cached_programs = 128;  ///< programs kept, at least 1; the one unused longest goes first
    bool shard_states = false;     ///< each rank keeps only its part (shards.h) of the optimizer's states
  };

  /// A run that was started; `collect` waits for it.
  struct Pending {
    std::shared_ptr<const CompiledProgram> compiled;
    Event event;
    bool gives(std::string_view output) const { return compiled->gives(output); }
  };
  /// 0 if the run does not have it.
  struct Outcome {
    float loss = 0, grad_norm = 0;  ///< both without loss scale
    float stop = 0;                 ///< ranks that were asked to stop
  };

  /// Allocates parameters and optimizer state, all zero.  `model` and `backend` must outlive the session.  If
  /// the backend has a group, its ranks train together: an update uses the mean of their losses.
  Session(Backend& backend, TaskModel& model, const Options& options);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  ProgramCache& programs() { return programs_; }
  const ProgramCache& programs() const { return programs_; }

  /// One whole update on one batch.  With `base` only the head runs; then the base must be frozen.  Errors,
  /// as for all runs: kInvalidData for a batch that the model cannot read or not learn from; kUsage if a row
  /// is longer than promised to ProgramCache::expect_rows.
  Pending step(const PackedBatch& batch, const StepScalars& scalars, BaseRows base = {});
  /// What `step` runs for such a batch; nothing is run.
  struct StepPlan {
    std::shared_ptr<const CompiledProgram> compiled;
    Launches launches;  ///< Executable::launches
  };
  StepPlan plan_step(const PackedBatch& batch, const StepScalars& scalars);
  /// Adds the gradients of one micro-batch; `update` then ends the step.  A task with cached_samples has no
  /// step: its batches run in parts, forward to what the head gives, once more with the gradient of their
  /// loss by that.  The result is that of the whole batch, dropout included.
  Pending accumulate(const PackedBatch& batch, const StepScalars& scalars, BaseRows base = {});
  Pending update(const StepScalars& scalars);
  Outcome collect(const Pending& pending) const;

  /// Forward pass without dropout, in `dtype` if given. logits: in the shape of the head (HeadKind), without
  /// the filling.  Returns the loss if the batch has targets, else 0. quantization: of the base's linear
  /// layers.
  float evaluate(const PackedBatch& batch, std::vector<float>& logits, BaseRows base = {},
                 std::optional<DType> dtype = {}, nn::Quantization quantization = nn::Quantization::kNone);
  struct Counted {
    float loss = 0;
    int32_t correct = 0;  ///< of batch.real_scored
  };
  /// The same for a task over a vocabulary, of which no logits exist whole.
  Counted count(const PackedBatch& batch, BaseRows base = {}, std::optional<DType> dtype = {},
                nn::Quantization quantization = nn::Quantization::kNone);
  /// Runs only the base, without dropout.  Rows as in BaseRows.
  void run_base(const PackedBatch& batch, std::vector<std::byte>& rows);
  size_t base_row_bytes() const;
  /// The rows of logits that `evaluate` gives for a batch.
  int64_t rows_of_scores(const PackedBatch& batch) const;

  Backend& backend() const { return backend_; }
  const TaskModel& model() const { return model_; }
  /// How batches must be padded.
  TokenRounding token_rounding() const { return backend_.info().token_rounding; }
  /// The backend's group; null: only this process trains.
  ProcessGroup* group() const { return backend_.group(); }
  int ranks() const { return options_.program.ranks; }

 private:
  /// Fills the slot for such a run, and compiles its program.
  struct Ready {
    std::shared_ptr<const CompiledProgram> compiled;
    const Slot& slot;
  };
  Work evaluation(const PackedBatch& batch, bool scores, std::optional<DType> dtype,
                  nn::Quantization quantization) const;
  /// Where rows may be empty, a batch is filled up to the rows of the largest one of that kind: one program
  /// serves both.
  int64_t rows_of_bucket(ProgramKind kind, int64_t rows);
  /// accumulate for a task with cached_samples.
  Pending accumulate_parts(const PackedBatch& batch, const StepScalars& scalars);
  Ready ready(Work work, const PackedBatch* batch, const StepScalars& scalars, BaseRows base);
  Pending run(const Work& work, const PackedBatch* batch, const StepScalars& scalars, BaseRows base = {});

  Backend& backend_;
  const TaskModel& model_;
  Options options_;
  Parameters parameters_;
  ProgramCache programs_;
  StepInputs inputs_;
  PackedBatch part_;                        // of a batch
  std::vector<float> vectors_, gradients_;  // what the head gave for a batch, and the gradient by it
  std::map<ProgramKind, int64_t> most_rows_;
};

}  // namespace lathe
