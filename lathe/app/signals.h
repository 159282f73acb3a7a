#pragma once

namespace lathe {

/// Makes SIGINT and SIGTERM ask for a stop instead of ending the process; a SIGINT after that ends it at once
/// with exit code 130.  Call once, from the program, never from the library.
void install_stop_signals();

/// The signal that asked for a stop, or 0.  May be called from any thread.
int stop_signal();

/// Forgets a request.
void clear_stop_signal();

}  // namespace lathe
