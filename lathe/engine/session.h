#pragma once
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/data/batch.h"
#include "lathe/engine/memory_need.h"
#include "lathe/engine/programs.h"
#include "lathe/ops/optimizers/optimizer.h"
#include "lathe/program/backend.h"

namespace lathe {

/// All that changes from step to step; written to the device as data.
struct StepScalars {
  double learning_rate = 0;
  int64_t update_step = 1;   ///< key of all dropout of this update, from 1
  int64_t adam_step = 1;     ///< t of the optimizer (step_factors): updates that were applied, with this one
  uint32_t seed = 42;        ///< of dropout
  double max_grad_norm = 1;  ///< 0: no clipping
  double loss_weight = 1;    ///< dL/dloss: 1 / micro-batches of this update
  double loss_scale = 1;     ///< gradients carry it, norm and update take it out again (loss_scaler.h)
  bool first_micro = true;   ///< gradients start anew
  bool stop = false;         ///< with several ranks: this one was asked to stop
};

/// A model on a device: its parameters, optimizer state and compiled programs.  Not for several threads at
/// once.
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
    std::shared_ptr<Executable> executable;
    Event event;
    bool has_loss = false, has_stop = false, has_norm = false;
  };
  struct Outcome {
    float loss = 0, grad_norm = 0;  ///< both without loss scale
    float stop = 0;                 ///< ranks that were asked to stop
  };

  /// Allocates parameters and optimizer state, all zero.  `model` and `backend` must outlive the session.
  /// Where the backend has a group, its ranks train together: an update is of the mean of their losses.
  Session(Backend& backend, TaskModel& model, const Options& options);

  /// Content of parameter `index` of the model.  Errors: kUsage if there is none; kShape if the size differs.
  void write_parameter(int index, std::span<const float> values);
  std::vector<float> read_parameter(int index) const;
  /// Its bytes from `begin` on, as many as `out` has.
  Status read_parameter(int index, size_t begin, std::span<std::byte> out) const;
  /// What the optimizer keeps, and its name.
  std::vector<OptimizerState> optimizer_states() const;
  std::string optimizer() const { return name_of(options_.program.optimizer); }
  /// A flat state: "parameters", or one of optimizer_states, of which ranks with shards read their part.
  std::vector<float> read_state(const std::string& name) const;
  Status read_state(const std::string& name, size_t begin, std::span<std::byte> out) const;
  /// The whole of it, or its elements from `begin` on, of which ranks with shards keep their part.
  /// Errors: kShape if they are not of its size, or reach beyond it.
  void write_state(const std::string& name, std::span<const float> values);
  void write_state(const std::string& name, size_t begin, std::span<const float> values);
  /// Zeros in one of optimizer_states, or in all of them, as before the first update.
  void clear_state(const std::string& name);
  void clear_states();
  /// As read_state, of the whole of a state of which each rank keeps its part: for rank 0, while the others
  /// are in serve_states.
  Status read_whole_state(const std::string& name, size_t begin, std::span<std::byte> out) const;
  /// Gives rank 0 what it asks for until it calls end_reads.  Both return at once where nothing is sharded.
  Status serve_states() const;
  Status end_reads() const;

  /// What the device tuned for itself so far: Backend::tuning.
  std::string tuning() const { return backend_.tuning(); }
  void adopt_tuning(const std::string& text) { backend_.adopt_tuning(text); }

  /// How batches must be filled up.
  TokenRounding token_rounding() const { return backend_.info().token_rounding; }

  /// The base's output for a batch: rows of hidden_size elements in the dtype of activations, one per token
  /// or per sample of the batch (TaskModel::per_token).  Empty: the base is to run.
  using BaseRows = std::span<const std::byte>;

  /// One whole update on one batch.  With `base` the head alone runs; the base must be frozen then.
  Pending step(const PackedBatch& batch, const StepScalars& scalars, BaseRows base = {});
  /// What `step` runs for such a batch, without running it.
  struct StepPlan {
    const Program& program;  ///< of this session, until another is compiled
    Launches launches;       ///< Executable::launches
  };
  StepPlan plan_step(const PackedBatch& batch, const StepScalars& scalars);
  /// Adds the gradients of one micro-batch; then `update` ends the step.
  Pending accumulate(const PackedBatch& batch, const StepScalars& scalars, BaseRows base = {});
  Pending update(const StepScalars& scalars);
  Outcome collect(const Pending& pending) const;

  /// Forward pass without dropout, in `dtype` if it is given.  logits: as the problem says, rows of tokens
  /// behind the last row left out.  Returns the loss where the batch has targets, else 0.
  /// quantization: of the base's linear layers.
  float evaluate(const PackedBatch& batch, std::vector<float>& logits, BaseRows base = {},
                 std::optional<DType> dtype = {}, nn::Quantization quantization = nn::Quantization::kNone);
  /// Runs the base alone, without dropout.  Rows as in BaseRows.
  void run_base(const PackedBatch& batch, std::vector<std::byte>& rows);
  size_t base_row_bytes() const;
  /// Grows when a frozen parameter takes another value: what run_base gave before is stale then.
  uint64_t frozen_version() const { return frozen_version_; }

  /// Runs of one kind and shape: what is traced and planned for them.
  struct Work {
    ProgramKind kind = ProgramKind::kStep;
    Bucket bucket;
    bool targets = true, base_given = false;
    nn::Quantization quantization = nn::Quantization::kNone;  ///< of kEvaluate; others have the session's
    std::optional<DType> dtype;                               ///< of activations, if another than in training
    auto operator<=>(const Work&) const = default;
  };
  /// From now on no row has more than so many tokens, or than were said before, in training or without:
  /// programs and their memory are made for these.  A batch with a longer one is an error, kUsage.
  enum class Rows { kTrained, kEvaluated };
  void expect_rows(Rows rows, int64_t longest);
  /// What these runs take beyond what the session holds; planned without allocating anything.
  MemoryNeed memory_need(std::span<const Work> work) const;
  /// What the device has free for this process, as it is when all ranks ask: each must, and what they share
  /// (DeviceInfo::host_memory) is divided among them.  Empty where no rank's device tells.
  std::optional<uint64_t> free_share() const;
  /// Allocates all that these runs take but what the device prepares for itself.  Runs of smaller buckets
  /// then find their memory, too.  Errors: kMemory if that is more than `free`, or the device has not enough;
  /// the message says what would fit.
  void reserve(std::span<const Work> work, std::optional<uint64_t> free);
  /// The same without other ranks: all is this process's that the device has free.
  void reserve(std::span<const Work> work);

  /// What such runs execute; compiled unless it is in the cache, where it stays until others replace it.
  struct CompiledWork {
    const Program& program;
    Executable& executable;
  };
  CompiledWork compile(const Work& work);

  /// Compiled programs in the cache, and bytes of the arena they share.
  size_t programs() const { return cache_.size(); }
  /// The program of a run whose executable is still in the cache.  Errors: kInternal if it is not.
  const Program& program(const Pending& run) const;
  size_t arena_bytes() const { return bindings_.arena.bytes; }
  const nn::FlatLayout& layout() const { return layout_; }
  const TaskModel& model() const { return model_; }
  /// The backend's; null: this process trains alone.
  ProcessGroup* group() const { return backend_.group(); }
  int ranks() const { return options_.program.ranks; }

 private:
  struct Planned {
    std::unique_ptr<Program> program;
    Selection selection;
    MemoryPlan memory;
  };
  struct Compiled {
    std::unique_ptr<Program> program;
    std::shared_ptr<Executable> executable;
    uint64_t last_use = 0;
  };

  Planned planned(const Work& work, int64_t recompute_every) const;
  std::vector<Planned> planned(std::span<const Work> work) const;
  MemoryNeed memory_need(std::span<const Planned> plans) const;
  /// Allocates what the plans want.
  void provide(std::span<const Planned> plans, std::span<const Work> work, std::optional<uint64_t> free);
  std::string shortage(const MemoryNeed& need, uint64_t free, const Work& largest) const;
  Compiled& compiled(const Work& work);
  void grow_arena(size_t bytes);
  int64_t state_size(const std::string& name) const;
  bool holds(const Buffer& buffer, size_t begin, std::span<const std::byte> values) const;
  bool is_sharded(const std::string& name) const;
  /// A part of a state that rank 0 asks for; none: it asks no more.
  struct PartRequest {
    int64_t state = 0;  ///< index in optimizer_states
    int64_t rank = 0, begin = 0, bytes = 0;
  };
  Status exchange(const PartRequest& request, std::span<std::byte> part) const;
  void check(const PackedBatch& batch) const;
  void number_positions(const PackedBatch& batch, int32_t padding);
  void prepare(const PackedBatch* batch, const StepScalars& scalars);
  const std::vector<int32_t>& ids_of_all_ranks(const PackedBatch& batch) const;
  std::span<const std::byte> content(const std::string& input, const PackedBatch* batch) const;
  /// Compiles what a run wants and fills the slot with its inputs.
  Compiled& ready(ProgramKind kind, const PackedBatch* batch, const StepScalars& scalars, BaseRows base,
                  std::optional<DType> dtype, nn::Quantization quantization);
  Pending run(ProgramKind kind, const PackedBatch* batch, const StepScalars& scalars, BaseRows base = {},
              std::optional<DType> dtype = {}, nn::Quantization quantization = nn::Quantization::kNone);

  Backend& backend_;
  TaskModel& model_;
  Options options_;
  nn::FlatLayout layout_;
  Bindings bindings_;
  std::map<Work, Compiled> cache_;
  uint64_t uses_ = 0, frozen_version_ = 0;
  int64_t longest_row(ProgramKind kind) const;
  int64_t longest_trained_ = 0, longest_evaluated_ = 0;  // rows, 0: nobody knows
  uint64_t granted_ = 0;  // bytes of activations that a device which holds them itself had free once

  // contents of the inputs that do not lie in the batch
  BaseRows base_;
  std::vector<int32_t> row_ids_, position_rows_;
  std::vector<int32_t> one_type_;  // token types of a model that has one, whatever the tokenizer says
  std::array<uint32_t, 2> rng_{};
  std::array<float, kHyperCount> hyper_{};
  float loss_weight_ = 1, keep_ = 0, stop_ = 0;
  Slot slot_;
};

}  // namespace lathe
