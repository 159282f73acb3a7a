#pragma once

namespace lathe {

/// While one lives, SIGINT and SIGTERM ask for a stop instead of ending the process; a second one ends it at
/// once, with exit code 130 or 143.  Before and behind, both do what they did; behind the last one so does a
/// signal that came and nobody asked about, unless an error ends the work.  For work that can stop so that it
/// goes on later, and asks; what never asks is to be ended.  They may be nested.  Made by the program, never
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

}  // namespace lathe
