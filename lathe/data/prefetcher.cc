#include "lathe/data/prefetcher.h"

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

namespace lathe {
namespace {
constexpr uint64_t kSlots = 3;
}

// Batch k lives in slot k % kSlots.  The producer may fill it once batch k - kSlots is released.
struct Prefetcher::State {
  explicit State(Fill f) : fill(std::move(f)) {}

  void produce() {
    for (uint64_t k = 0;; ++k) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return stop || k < released + kSlots; });
        if (stop) return;
      }
      bool more = false;
      std::exception_ptr thrown;
      try {
        more = fill(slots[k % kSlots]);
      } catch (...) {
        thrown = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      if (more) {
        filled = k + 1;
      } else {
        finished = true;
        error = thrown;
      }
      changed.notify_all();
      if (!more) return;
    }
  }

  Fill fill;
  std::array<PackedBatch, kSlots> slots;
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t filled = 0;    // batches made
  uint64_t taken = 0;     // batches handed out; consumer only
  uint64_t released = 0;  // batches the consumer is done with
  bool finished = false, stop = false;
  std::exception_ptr error;
  std::thread thread;
};

Prefetcher::Prefetcher(Fill fill) : state_(std::make_unique<State>(std::move(fill))) {
  state_->thread = std::thread([state = state_.get()] { state->produce(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

const PackedBatch* Prefetcher::next() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.released = s.taken;
  s.changed.notify_all();
  s.changed.wait(lock, [&] { return s.filled > s.taken || s.finished; });
  if (s.filled > s.taken) return &s.slots[s.taken++ % kSlots];
  if (s.error) std::rethrow_exception(s.error);
  return nullptr;
}

}  // namespace lathe
