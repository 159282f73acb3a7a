#pragma once
#include <stdint.h>

// Each file that includes this gets its own copy.

namespace lathe::cpu {
namespace {

/// Finds out which of several ways of doing the same is the fastest now, while the work is done.  A turn
/// takes some microseconds, and the speed of a core may change within milliseconds.
///
/// Of every kPeriod turns two are timed: one of the way in use and one of another way, in alternating order.
/// It does not count by how much one is faster, as turns differ in what else they do.  A way that has been
/// faster kLead times more often than slower becomes the way in use.
template <int kWays>
class FastestWay {
 public:
  static constexpr int kPeriod = 32, kLead = 3;

  /// Calls work(way); `now` returns the time in any unit.
  template <typename Now, typename Work>
  void turn(Now now, Work work) {
    const uint32_t at = turn_ % kPeriod, trial = turn_ / kPeriod;
    ++turn_;
    if (at > 1) return work(used_);
    const int other = static_cast<int>((static_cast<uint32_t>(used_) + 1 + trial % (kWays - 1)) % kWays);
    const bool others_turn = (at == 0) == (trial / (kWays - 1) % 2 == 0);
    const auto begin = now();
    work(others_turn ? other : used_);
    const auto took = static_cast<uint64_t>(now() - begin);
    if (at == 0)
      first_took_ = took;
    else
      judge(other, others_turn ? took < first_took_ : first_took_ < took);
  }

 private:
  void judge(int other, bool faster) {
    int& lead = lead_[other];
    if (faster)
      ++lead;
    else if (lead > -kLead)
      --lead;
    if (lead < kLead) return;
    used_ = other;
    for (int& each : lead_) each = 0;
  }

  uint32_t turn_ = 0;
  int used_ = 0;
  int lead_[kWays] = {};  // of each way over the one in use
  uint64_t first_took_ = 0;
};

}  // namespace
}  // namespace lathe::cpu
