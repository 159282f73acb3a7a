#pragma once
#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lathe/program/backend.h"

namespace lathe::cuda {

/// A part of a state: value id and elements from its begin.
struct StatePlace {
  int state = -1;
  int64_t offset = 0;
};
/// The state of which `value` is a view; none if it is computed or an input.
std::optional<StatePlace> state_of(const Program& program, int value);

/// Whether the value, read as this type where a state holds it, begins on a multiple of 16 bytes.  cuBLASLt
/// reads a bias in vectors and asks for no alignment, so that one on other addresses is copied first.
bool on_vectors(const Program& program, int value, DType type);

/// The values (ids, or −1) that a product reads in rounded copies of states.  A weight in the dtype of the
/// activations is read where it lies.
struct RoundedInputs {
  int weight = -1, bias = -1;
  DType type = DType::f32;
};
RoundedInputs rounded_inputs(const Node& node, const Program& program);

/// Copies of one flat f32 state rounded to the dtypes of activations, which is how products read its weights.
/// AdamW writes the copy that it knows of together with the weights, and all_gather writes what other ranks
/// updated.  After any other change of the state a copy is stale, and is rounded again before the next run.
class RoundedState {
 public:
  explicit RoundedState(const Buffer& state) : state_(state.data), count_(state.bytes / sizeof(float)) {}

  bool has(DType type) const { return find(type) != nullptr; }
  /// The copy, made if there is none.  It stays where it is.  Errors: kMemory.
  std::byte* copy(DType type, cudaStream_t stream);
  /// The copy that AdamW writes; its data is null if there is none yet.
  struct Written {
    std::byte* data = nullptr;
    DType type = DType::f32;
  };
  Written written_by_adamw() const;
  void changed();
  /// The state was updated by an AdamW that wrote this copy.
  void updated(const Written& by);
  /// Rounds anew what is stale.
  void refresh(cudaStream_t stream);

 private:
  struct Copy {
    DType type;
    Buffer memory;
    bool stale = true;
  };
  const Copy* find(DType type) const;

  const std::byte* state_;
  size_t count_;
  std::vector<Copy> copies_;
};

/// The rounded states of a device, by the memory of the state.
class RoundedStates {
 public:
  std::shared_ptr<RoundedState> of(const Buffer& state);
  bool has(const Buffer& state, DType type) const;
  /// Frees the copies of states that are freed.
  void forget_freed();
  /// The host wrote into this memory.
  void changed(const Buffer& state);

 private:
  struct Known {
    std::weak_ptr<void> owner;
    std::shared_ptr<RoundedState> state;
  };
  mutable std::mutex mutex_;
  std::map<const std::byte*, Known> states_;
};

}  // namespace lathe::cuda
