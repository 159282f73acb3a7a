#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lathe/models/task_model.h"
#include "lathe/optim/optimizer.h"
#include "lathe/optim/shards.h"
#include "lathe/program/backend.h"

namespace lathe {

/// What lasts of a model on a device: its weights, "parameters" and "frozen", and what its optimizer keeps,
/// each a flat state (nn::flat_layout).  Ranks may hold a part each of the optimizer's.  Not for several
/// threads at once.
class Parameters {
 public:
  /// Allocates the weights, all zero; states of the optimizer come with the first program that has them, or
  /// are written.  `backend` and `model` must outlive it.  shard_states: each rank of the backend's group
  /// keeps its part (shards.h) of what the optimizer keeps.
  Parameters(Backend& backend, const TaskModel& model, const OptimizerOptions& optimizer, bool shard_states);

  const TaskModel& model() const { return model_; }
  const nn::FlatLayout& layout() const { return layout_; }
  /// Empty: every rank keeps all.
  const Shards& shards() const { return shards_; }

  /// Content of parameter `index` of the model.  Errors: kUsage if there is none; kShape if the size differs.
  void write(int index, std::span<const float> values);
  std::vector<float> read(int index) const;
  /// Its bytes from `begin` on, as many as `out` has.
  Status read(int index, size_t begin, std::span<std::byte> out) const;
  /// Grows when a frozen parameter takes another value: what was computed from them before is stale then.
  uint64_t frozen_version() const { return frozen_version_; }

  /// What the optimizer keeps, and its name.
  std::vector<OptimizerState> optimizer_states() const;
  std::string optimizer() const { return name_of(optimizer_); }
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

  /// For programs: the states by name, and those of a program that are not there yet, which come as zeros.
  const std::map<std::string, Buffer>& buffers() const { return buffers_; }
  void allocate(const std::string& name, size_t bytes);

 private:
  /// A part of a state that rank 0 asks for; none: it asks no more.
  struct PartRequest {
    int64_t state = 0;  ///< index in optimizer_states
    int64_t rank = 0, begin = 0, bytes = 0;
  };
  struct Place {
    const Buffer& buffer;
    size_t offset;  // bytes
  };
  Place place(int index) const;
  int64_t state_size(const std::string& name) const;
  bool is_sharded(const std::string& name) const;
  bool holds(const Place& place, std::span<const std::byte> values) const;
  Status exchange(const PartRequest& request, std::span<std::byte> part) const;

  Backend& backend_;
  const TaskModel& model_;
  OptimizerOptions optimizer_;
  nn::FlatLayout layout_;
  Shards shards_;
  std::map<std::string, Buffer> buffers_;
  uint64_t frozen_version_ = 0;
};

}  // namespace lathe
