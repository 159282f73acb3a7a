#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lathe/io/tensor_view.h"
#include "lathe/models/task_model.h"
#include "lathe/optim/optimizer.h"
#include "lathe/optim/shards.h"
#include "lathe/program/backend.h"

namespace lathe {

/// What stays of a model on a device between runs: its weights, where nn::Layout puts them, and the
/// optimizer's states, flat as the trained weights are.  Ranks may hold a part each of the optimizer's
/// states.  Not for several threads at the same time.
class Parameters {
 public:
  /// Allocates the weights, all zero.  States of the optimizer are created by the first program that has
  /// them, or by writing them.  `backend` and `model` must outlive it. shard_states: each rank of the
  /// backend's group keeps only its part (shards.h) of the optimizer's states.
  Parameters(Backend& backend, const TaskModel& model, const OptimizerOptions& optimizer, bool shard_states,
             const nn::StorageRule& storage = {});

  const TaskModel& model() const { return model_; }
  const nn::Layout& layout() const { return layout_; }
  /// Empty: every rank keeps all.
  const Shards& shards() const { return shards_; }

  /// Content of parameter `index` of the model, of any dtype.  One that the device stores in fewer bits is
  /// rounded only there: what is read again, and so saved, is what was given.  owner: keeps the values for
  /// that; null: they are copied.  Errors: kUsage if there is none; kShape if the size differs.
  void write(int index, const TensorView& values, std::shared_ptr<const void> owner = nullptr);
  void write(int index, std::span<const float> values);
  std::vector<float> read(int index) const;
  /// Its bytes as f32 from `begin` on, as many as `out` has.
  Status read(int index, size_t begin, std::span<std::byte> out) const;
  /// Grows when a frozen parameter gets another value: results computed from the old values are then stale.
  uint64_t frozen_version() const { return frozen_version_; }

  /// The optimizer's states, and their names.
  std::vector<OptimizerState> optimizer_states() const;
  std::string optimizer() const { return name_of(optimizer_); }
  /// A flat state: "parameters", or one of optimizer_states; ranks with shards read only their part of the
  /// latter.
  std::vector<float> read_state(const std::string& name) const;
  Status read_state(const std::string& name, size_t begin, std::span<std::byte> out) const;
  /// Writes the whole state, or its elements from `begin` on; ranks with shards keep only their part of them.
  /// Errors: kShape if the size differs, or if they reach beyond the state.
  void write_state(const std::string& name, std::span<const float> values);
  void write_state(const std::string& name, size_t begin, std::span<const float> values);
  /// Zeros one of optimizer_states, or all of them, as before the first update.
  void clear_state(const std::string& name);
  void clear_states();
  /// As read_state, but reads the whole of a state of which each rank keeps a part.  For rank 0, while the
  /// other ranks are in serve_states.
  Status read_whole_state(const std::string& name, size_t begin, std::span<std::byte> out) const;
  /// Gives rank 0 what it asks for until it calls end_reads.  Both return immediately if nothing is sharded.
  Status serve_states() const;
  Status end_reads() const;

  /// For programs: the states by name.  States of a program that do not exist yet are created as zeros.
  const std::map<std::string, Buffer>& buffers() const { return buffers_; }
  void allocate(const std::string& name, size_t bytes);

 private:
  /// A part of a state that rank 0 asks for; none: it asks for nothing more.
  struct PartRequest {
    int64_t state = 0;  ///< index in optimizer_states
    int64_t rank = 0, begin = 0, bytes = 0;
  };
  struct Place {
    const Buffer& buffer;
    size_t offset;  // bytes
    DType dtype;
  };
  /// What was written to a parameter that the device stores in fewer bits.
  struct Exact {
    TensorView values;
    std::shared_ptr<const void> owner;
  };
  void allocate_frozen();
  Place place(int index) const;
  int64_t state_size(const std::string& name) const;
  bool is_sharded(const std::string& name) const;
  bool holds(int index, std::span<const std::byte> values) const;
  Status copy_in(const Place& to, std::span<const float> values) const;
  Status exchange(const PartRequest& request, std::span<std::byte> part) const;

  Backend& backend_;
  const TaskModel& model_;
  OptimizerOptions optimizer_;
  nn::Layout layout_;
  Shards shards_;
  std::map<std::string, Buffer> buffers_;
  std::map<int, Exact> exact_;  // by parameter
  uint64_t frozen_version_ = 0;
};

}  // namespace lathe
