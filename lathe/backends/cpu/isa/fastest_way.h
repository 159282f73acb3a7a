#pragma once
#include <stdint.h>

// Each file that includes this gets its own copy.

namespace lathe::cpu {
namespace {

/// Which of several ways of doing the same is the fastest just now, found while it is done: turns are some
/// microseconds, and what a core can do may change within milliseconds.
///
/// Of every kPeriod turns two are timed, one of the way that is used and one of another, either of them
/// first.  By how much one is faster does not count, as turns differ in what else they do; who has been
/// faster kLead times more often than slower takes over.
template <int kWays>
class FastestWay {
 public:
  static constexpr int kPeriod = 32, kLead = 3;

  /// Calls work(way); `now` tells the time in any unit.
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
  int lead_[kWays] = {};  // of each over the one that is used
  uint64_t first_took_ = 0;
};

}  // namespace
}  // namespace lathe::cpu
