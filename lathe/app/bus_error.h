#pragma once

namespace lathe {

/// Reading a mapped file ends the process by SIGBUS if another process has cut the file short or the disk
/// fails.  After this call a message on stderr says so.  Called by the program, never by the library.
void explain_bus_errors();

}  // namespace lathe
