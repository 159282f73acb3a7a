#pragma once

namespace lathe {

/// While one lives, SIGINT, SIGTERM and SIGHUP (from a closed terminal) ask for a stop instead of ending the
/// process.  A second signal more than a second after the first ends the process immediately.  A signal that
/// is ignored, as with nohup, stays ignored.  Before the first object and after the last, signals do what
/// they did.  After the last object this is also true for a signal that came and that nobody asked about,
/// unless an error ends the work.  Use it for work that asks for a stop and can continue later; work that
/// never asks should be ended by the signal.  Objects may be nested.  Made by the program, never by the
/// library.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
};

/// The signal that asked for a stop, or 0.  May be called from any thread.
int stop_signal();

/// The same for code that does not stop for it: the signal still counts as one that nobody asked about.
bool stop_is_asked();

/// Waits until a write of a few bytes to this descriptor would not block.  False if a stop was requested,
/// before or during the wait, and nobody has read for a second after it: a full pipe must not keep a run from
/// its checkpoint.  After that it does not wait any more. descriptor: of a standard stream.
bool wait_to_write(int descriptor);

/// Writes the rest of the standard streams and ends the process by this signal, as if nobody had caught it: a
/// shell then also ends its loop.
[[noreturn]] void end_by_signal(int number);

}  // namespace lathe
