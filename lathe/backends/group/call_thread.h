#pragma once
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace lathe::group {

/// The thread on which a transport makes all calls of a library that may wait forever for a rank that died.
/// After the group is aborted such a call is abandoned, together with its thread.  Nothing here is linked:
/// the parts include it.
class CallThread {
 public:
  CallThread() {
    // Libraries write to connections that the other end has closed and do not suppress the signal.  So this
    // thread blocks SIGPIPE, and the threads that it starts inherit that.
    sigset_t pipe, before;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::exception& failure) {
      error = std::string("no thread: ") + failure.what();
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~CallThread() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  /// Runs it on the thread.  False: it threw (`error` says what), or the group is aborted.
  bool call(const std::function<void()>& todo) {
    std::unique_lock lock(mutex_);
    if (stuck_ || !error.empty()) return false;
    todo_ = todo;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !todo_ || aborted_; });
    if (changed_.wait_for(lock, kGrace, [this] { return !todo_; })) return error.empty();
    stuck_ = true;
    error = "aborted";
    return false;
  }

  /// Gives the call a moment to end, as the lost rank may already have done its part.  Then cuts it off from
  /// the other ranks, and abandons it if that does not end it.
  void abort(const std::function<void()>& cut_off) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kGrace, [this] { return !todo_; });
    }
    cut_off();
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }

  /// A call was abandoned: its thread uses this object, and what the call was given, forever.
  bool stuck() const { return stuck_; }
  void leave() { thread_.detach(); }

  std::string error;  ///< of the first call that failed, or why there is no thread

 private:
  static constexpr std::chrono::milliseconds kGrace{500};

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return todo_ || ended_; });
      if (!todo_) return;
      lock.unlock();
      std::string thrown;
      try {
        todo_();
      } catch (const std::exception& failure) {
        thrown = failure.what();
      }
      lock.lock();
      if (error.empty()) error = thrown;
      todo_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> todo_;  // empty: the thread is idle
  bool aborted_ = false, stuck_ = false, ended_ = false;
  std::thread thread_;
};

/// Transport::why of transports that are a Self with a CallThread `thread`.
template <typename Self>
const char* why_of(void* self) {
  return static_cast<Self*>(self)->thread.error.c_str();
}
/// Transport::close of the same: what an abandoned call uses stays.
template <typename Self>
void close_of(void* self) {
  Self* const transport = static_cast<Self*>(self);
  if (transport->thread.stuck())
    transport->thread.leave();
  else
    delete transport;
}

}  // namespace lathe::group
