#pragma once

namespace lathe {

/// A file that another process cuts short while it is mapped, or whose disk fails, ends the process by SIGBUS
/// where its bytes are read: from now on with a message on stderr that says so.  Made by the program, never
/// by the library.
void explain_bus_errors();

}  // namespace lathe
