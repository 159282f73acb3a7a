#pragma once
#include <memory>

namespace lathe {

/// A fixed set of threads that run one job at a time, each its static share.  The caller is thread 0.
/// A caller that cuts by `part`/`parts` gets shares that depend on the number of threads.  If a result must
/// not depend on it, the work is cut into fixed pieces, and the pieces are dealt to the parts.
class ThreadPool {
 public:
  using Job = void (*)(void* context, int part, int parts);

  /// threads = 0: one per core that this process may use (affinity mask and cgroup quota), hyperthreads left
  /// out.  Errors: kUsage beyond kMostThreads; kMemory where the system does not start as many.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;

  /// Runs job(context, part, size()) for every part and returns when all are done.  No allocation; a short
  /// spin, then a futex wait.  Not reentrant; one caller at a time.  The job must not throw.
  void run(Job job, void* context);

  /// The same for a callable `f(int part, int parts)`.
  template <typename F>
  void run(F&& f) {
    run([](void* c, int part, int parts) { (*static_cast<std::remove_reference_t<F>*>(c))(part, parts); },
        &f);
  }

  /// Starts dealing items [0, total) to the threads; `next_item` gives them out within the jobs that follow.
  /// The results of items must not depend on who works on them.
  void deal(long total);
  /// The next item for `part`, −1 if none is left: first those of its own share (`share(total, part,
  /// size())`), in order; then what the others have left, since cores that are shared with other work are not
  /// equally fast.
  long next_item(int part);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Half-open range of `total` items that part `part` of `parts` takes: as even as possible, in order.
struct Share {
  long begin, end;
};
inline Share share(long total, int part, int parts) {
  return {total * part / parts, total * (part + 1) / parts};
}

}  // namespace lathe
