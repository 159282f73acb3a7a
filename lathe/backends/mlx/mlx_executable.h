#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "lathe/backends/mlx/compiled.h"
#include "lathe/backends/mlx/lowering.h"
#include "lathe/backends/mlx/recomputation.h"

namespace lathe::mlx {

/// Memory of a state: what Buffer::owner of this device holds.  Buffer::data is its address, used only as a
/// mark.
struct Cell {
  mx::array value;  ///< flat; a run puts another in its place
};

/// What all programs of a device share.  MLX's calls are made under `mutex`, on `stream`.
struct Device {
  mx::Stream stream;
  std::mutex mutex;
  Constants constants;
  std::optional<Ranks> ranks;  ///< none: this process only
};

/// A program as compiled functions of MLX, one per padded length of its rows, from inputs and states to
/// outputs and new states.  A run builds its graph and starts it; the arrays of a run's outputs stay in a
/// ring.
class MlxExecutable : public Executable {
 public:
  /// Errors: throws kInternal if the bindings do not fit.
  MlxExecutable(Device& device, const Program& program, const Selection& selection, const Bindings& bindings);
  ~MlxExecutable() override;

  Status run(const Slot& slot, Event* event) override;
  Status wait(Event event) override;
  Status read(Event event, size_t index, std::span<std::byte> destination) override;
  /// The primitives that compute something in the graph as Metal gets it, fused ones as "Compiled".
  Result<Launches> launches(const Slot& slot) override;
  void profile(bool on) override { profile_ = on; }
  std::vector<Span> timeline() const override { return spans_; }

 private:
  /// A view of a state: of the elements from `offset` on; `last`: its id when a run has ended.
  struct Part {
    int64_t offset;
    int last;
  };
  struct State {
    int value;  ///< id when a run begins
    int last;   ///< id when it has ended
    std::shared_ptr<Cell> cell;
    std::vector<Part> parts = {};  ///< that are updated, in order; they do not overlap

    bool changes() const { return last != value || !parts.empty(); }
  };
  struct Flight {
    uint64_t ticket = 0;
    std::vector<std::optional<mx::array>> outputs;
  };
  /// A compiled function and the length that its rows are padded to.
  struct Padded {
    int longest;
    std::unique_ptr<Compiled> function;
  };

  void follow_states(const Bindings& bindings);
  mx::array new_value(const State& state, const std::vector<std::optional<mx::array>>& values) const;
  Status check(const Slot& slot) const;
  int longest_row(const Slot& slot) const;
  Compiled& function_for(int longest);
  /// Outputs, then the states that changed.  timed: every node is waited for and measured.
  Arrays lower(const Arrays& inputs, int longest, bool timed);
  void lower_node(size_t n, int longest, Shared& shared, std::vector<std::optional<mx::array>>& values);
  Arrays inputs_of(const Slot& slot);
  void take(Arrays results, uint64_t ticket);
  Flight* flight(Event event);

  Device& device_;
  const Program& program_;
  Selection selection_;
  const std::map<size_t, Waiting> recomputations_;
  std::vector<int> inputs_;  // value ids
  std::vector<State> states_;
  std::vector<size_t> bounds_;  // which inputs are the bounds of rows of attention
  std::deque<Padded> functions_;
  Flight ring_[kRing];
  uint64_t ticket_ = 0;
  bool profile_ = false;
  std::vector<Span> spans_;
};

/// Runs `f` under the device's mutex on its stream; an exception of MLX becomes a Status.
Status guarded(Device& device, const char* doing, const std::function<void()>& f);

}  // namespace lathe::mlx
