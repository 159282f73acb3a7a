#pragma once
#include <cstdint>

namespace lathe {

/// The loss scale of a run in f16.  The backward pass begins with the scale in place of 1, so that small
/// gradients do not vanish; where large ones then overflow, the update is left out and the scale halved, and
/// after kGrowthInterval updates without overflow it is doubled.  It belongs to no device.
/// Source: torch.amp.GradScaler 2.15 with its defaults.
///
/// One update goes so:
///   1. All its micro-batches run with scale() as a factor of dL/dloss, and its norm and AdamW with 1 /
///   scale()
///      (Hyper::kInverseScale): both are data of the run, so a device sees no other program.
///   2. The device leaves the update out by itself where norm or loss is not finite.
///   3. The host reads norm and loss and calls `finish` before it starts the next update, which depends on it
///      in scale, learning rate and bias correction.  On the CPU a run is done when it returns; a device that
///      runs ahead waits here once per update, as GradScaler.step does, and no more often.
class LossScaler {
 public:
  /// What is saved, and gives the same scales after resuming.
  struct State {
    double scale = 65536;        ///< a power of two
    int64_t growth_tracker = 0;  ///< updates without overflow since the scale last changed
    int64_t bad_losses = 0;      ///< updates one after another whose loss was not finite
  };
  static constexpr int64_t kGrowthInterval = 2000;
  /// Below it not even the largest gradient that f16 holds is too large, and torch would go on to 0.
  static constexpr double kSmallestScale = 0x1p-14;
  /// The scale does not touch the loss: it stays as it is, and torch would go on halving.
  static constexpr int64_t kMostBadLosses = 16;

  LossScaler() = default;
  explicit LossScaler(const State& state) : state_(state) {}

  double scale() const { return state_.scale; }
  const State& state() const { return state_; }
  /// How the update that ran with scale() came out.  True if it was applied.
  bool finish(bool finite_loss, bool finite_norm);
  /// Whether going on is of no use: the scale fell below kSmallestScale, or kMostBadLosses is reached.
  bool hopeless() const { return state_.scale < kSmallestScale || state_.bad_losses >= kMostBadLosses; }

 private:
  State state_;
};

}  // namespace lathe
