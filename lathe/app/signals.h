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

/// Writes what is left of the standard streams and ends the process by this signal, as if nobody had caught
/// it: a shell then ends its loop, too.
[[noreturn]] void end_by_signal(int number);

}  // namespace lathe
