#pragma once
#include <cstdint>

namespace lathe {

/// The loss scale of a run in f16.  The backward pass begins with the scale in place of 1, so that small
/// gradients do not vanish.  If large ones overflow, the update is left out and the scale is halved.  After
/// kGrowthInterval updates without overflow the scale is doubled.  It belongs to no device.
/// Source: torch.amp.GradScaler 2.15 with its defaults.
///
/// One update:
///   1. All its micro-batches run with scale() as a factor of dL/dloss; norm and AdamW run with 1 / scale()
///      (Hyper::kInverseScale).  Both are data of the run, so that a device sees no other program.
///   2. The device itself leaves the update out if norm or loss is not finite.
///   3. The host reads norm and loss and calls `finish` before it starts the next update, which needs them
///      for scale, learning rate and bias correction.  On the CPU a run is done when it returns; a device
///      that runs ahead waits here once per update, like GradScaler.step, and no more often.
class LossScaler {
 public:
  /// The saved state; it gives the same scales after resuming.
  struct State {
    double scale = 65536;        ///< a power of two
    int64_t growth_tracker = 0;  ///< updates without overflow since the scale last changed
    int64_t bad_losses = 0;      ///< updates in a row whose loss was not finite
  };
  static constexpr int64_t kGrowthInterval = 2000;
  /// Below this scale even the largest gradient of f16 is not too large, and torch would go on to 0.
  static constexpr double kSmallestScale = 0x1p-14;
  /// The scale does not change the loss: it stays not finite, and torch would go on halving.
  static constexpr int64_t kMostBadLosses = 16;

  LossScaler() = default;
  explicit LossScaler(const State& state) : state_(state) {}

  double scale() const { return state_.scale; }
  const State& state() const { return state_; }
  /// Takes the outcome of the update that ran with scale().  True if it was applied.
  bool finish(bool finite_loss, bool finite_norm);
  /// Whether it is useless to continue: the scale fell below kSmallestScale, or kMostBadLosses is reached.
  bool hopeless() const { return state_.scale < kSmallestScale || state_.bad_losses >= kMostBadLosses; }

 private:
  State state_;
};

}  // namespace lathe
