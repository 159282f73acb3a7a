#include "lathe/core/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "lathe/core/cpu_limits.h"
#include "lathe/core/error.h"
#include "lathe/core/start_thread.h"

namespace lathe {
namespace {

// Jobs of a step follow each other within microseconds, but cores that are shared with other work are late by
// hundreds of them, and a sleep and its wake-up cost tens.
constexpr std::chrono::microseconds kSpin{1000};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Waits until `word` is not `old`: spins for a while, then sleeps.
void await_change(const std::atomic<uint32_t>& word, uint32_t old, std::chrono::microseconds spin) {
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 32; ++i) {
      if (word.load(std::memory_order_acquire) != old) return;
      pause();
    }
  } while (std::chrono::steady_clock::now() - start < spin);
  word.wait(old, std::memory_order_acquire);
}

}  // namespace

struct ThreadPool::State {
  int parts = 1;
  std::chrono::microseconds spin{0};
  // Each on its own cache line, so that threads that finish disturb neither those that wait nor each other.
  alignas(64) std::atomic<uint32_t> round{0};  // a new value starts the job next to it
  Job job = nullptr;
  void* context = nullptr;
  struct alignas(64) Round {
    std::atomic<uint32_t> number{0};
  };
  std::unique_ptr<Round[]> finished;  // the last one that each part has finished; the caller's is not used
  bool stop = false;
  std::vector<std::thread> workers;
  struct alignas(64) Items {
    std::atomic<long> next{0};
    long end = 0;
  };
  std::unique_ptr<Items[]> items;  // of each part
  // Where workers are tied: the cores of all parts, the caller's that on which it ran last, and of all CPUs.
  std::vector<int> tied, core_of_cpu;

  // A worker on the caller's core would take turns with it, each of some milliseconds.  The system moves the
  // caller as it likes: the worker that is tied to its new core gets the one that it left.
  void leave_the_callers_core() {
    const auto cpu = static_cast<size_t>(current_cpu());
    if (cpu >= core_of_cpu.size() || core_of_cpu[cpu] < 0 || core_of_cpu[cpu] == tied[0]) return;
    const auto met = std::find(tied.begin() + 1, tied.end(), core_of_cpu[cpu]);
    if (pin_to_cpu(workers[static_cast<size_t>(met - tied.begin() - 1)], tied[0])) std::swap(*met, tied[0]);
  }

  void start_round() {
    round.fetch_add(1, std::memory_order_release);
    round.notify_all();
  }

  void stop_workers() {
    stop = true;
    start_round();
    for (std::thread& worker : workers) worker.join();
  }

  void work(int part) {
    for (uint32_t seen = 0;; ++seen) {
      await_change(round, seen, spin);
      if (stop) return;
      job(context, part, parts);
      std::atomic<uint32_t>& mine = finished[static_cast<size_t>(part)].number;
      mine.store(seen + 1, std::memory_order_seq_cst);  // before notify_one looks for who sleeps
      mine.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  if (threads > kMostThreads)
    fail(ErrorCode::kUsage, "--threads: found {}, expected at most {} (0: one per core)", threads,
         kMostThreads);
  State& s = *state_;
  std::vector<int> cores = compute_cores();
  s.parts = threads > 0 ? threads : default_threads();
  s.items = std::make_unique<State::Items[]>(static_cast<size_t>(s.parts));
  s.finished = std::make_unique<State::Round[]>(static_cast<size_t>(s.parts));
  if (s.parts <= most_awake_threads())
    s.spin = kSpin;  // beyond that it would take the core from one with work
  s.workers.reserve(static_cast<size_t>(s.parts - 1));
  try {
    for (int part = 1; part < s.parts; ++part)
      s.workers.push_back(start_thread([&s, part] { s.work(part); }));
  } catch (const Error& error) {
    const size_t started = s.workers.size() + 1;
    s.stop_workers();
    fail(error.code(), "needs {} threads, has {}: {}; --threads takes fewer", s.parts, started, error.what());
  }
  // A pool that fills the machine ties its workers to cores.  A smaller one leaves the choice to the system,
  // which may have to place several pools side by side.  The caller's thread stays as it is.
  if (s.parts == 1 || static_cast<size_t>(s.parts) != cores.size()) return;
  s.tied = std::move(cores);
  for (size_t part = 1; part < s.tied.size(); ++part) pin_to_cpu(s.workers[part - 1], s.tied[part]);
  s.core_of_cpu = cores_of_cpus(s.tied);
  s.leave_the_callers_core();
}

ThreadPool::~ThreadPool() { state_->stop_workers(); }

void ThreadPool::deal(long total) {
  for (int part = 0; part < state_->parts; ++part) {
    const Share mine = share(total, part, state_->parts);
    state_->items[static_cast<size_t>(part)].next.store(mine.begin, std::memory_order_relaxed);
    state_->items[static_cast<size_t>(part)].end = mine.end;
  }
}

long ThreadPool::next_item(int part) {
  for (int i = 0; i < state_->parts; ++i) {
    State::Items& of = state_->items[static_cast<size_t>((part + i) % state_->parts)];
    if (of.next.load(std::memory_order_relaxed) >= of.end) continue;
    const long item = of.next.fetch_add(1, std::memory_order_relaxed);
    if (item < of.end) return item;
  }
  return -1;
}

int ThreadPool::size() const { return state_->parts; }

void ThreadPool::run(Job job, void* context) {
  State& s = *state_;
  if (s.parts > 1) {
    s.leave_the_callers_core();
    s.job = job;
    s.context = context;
    s.start_round();
  }
  job(context, 0, s.parts);
  const uint32_t round = s.round.load(std::memory_order_relaxed);
  for (int part = 1; part < s.parts; ++part) {
    const std::atomic<uint32_t>& finished = s.finished[static_cast<size_t>(part)].number;
    for (uint32_t last; (last = finished.load(std::memory_order_acquire)) != round;)
      await_change(finished, last, s.spin);
  }
}

}  // namespace lathe
