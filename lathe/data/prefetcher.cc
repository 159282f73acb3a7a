#include "lathe/data/prefetcher.h"

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "lathe/core/start_thread.h"

namespace lathe {

// Batch k lives in slot k % slots.size().  The producer may fill it once batch k - slots.size() is released.
struct Prefetcher::State {
  State(Fill f, size_t count) : fill(std::move(f)), slots(count) {}

  void produce() {
    for (uint64_t k = 0;; ++k) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return stop || k < released + slots.size(); });
        if (stop) return;
      }
      bool more = false;
      std::exception_ptr thrown;
      try {
        more = fill(slots[k % slots.size()]);
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
  std::vector<PackedBatch> slots;
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t filled = 0;    // batches made
  uint64_t taken = 0;     // batches handed out; consumer only
  uint64_t released = 0;  // batches the consumer is done with
  bool finished = false, stop = false;
  std::exception_ptr error;
  std::thread thread;
};

Prefetcher::Prefetcher(Fill fill, size_t slots) : state_(std::make_unique<State>(std::move(fill), slots)) {
  state_->thread = start_thread([state = state_.get()] { state->produce(); });
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
  if (s.filled > s.taken) return &s.slots[s.taken++ % state_->slots.size()];
  if (s.error) std::rethrow_exception(s.error);
  return nullptr;
}

}  // namespace lathe
