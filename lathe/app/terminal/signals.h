#pragma once

namespace lathe {

/// While one lives, SIGINT, SIGTERM and SIGHUP, of a terminal that is gone, ask for a stop instead of ending
/// the process; a second one, which comes more than a second after the first, ends it at once.  One that is
/// ignored, as by nohup, stays so.  Before and behind, they do what they did; behind the last one so does a
/// signal that came and nobody asked about, unless an error ends the work.  For work that can stop so that it
/// goes on later, and asks; what never asks is to be ended. They may be nested.  Made by the program, never
/// by the library.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
};

/// The signal that asked for a stop, or 0.  May be called from any thread.
int stop_signal();

/// The same for who does not stop for it: it still counts as one that nobody asked about.
bool stop_is_asked();

/// Waits until a write of a few bytes to this descriptor would not block.  False where a stop is asked for,
/// or comes meanwhile, and nobody has read for a second after it: a pipe that is full must not keep a run
/// from its checkpoint.  From then on it waits no more.  descriptor: of a standard stream.
bool wait_to_write(int descriptor);

/// Writes what is left of the standard streams and ends the process by this signal, as if nobody had caught
/// it: a shell then ends its loop, too.
[[noreturn]] void end_by_signal(int number);

}  // namespace lathe
