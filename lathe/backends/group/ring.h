#pragma once
#include "lathe/backends/group/transport.h"

namespace lathe::group {

/// The transport "ring": every rank has one TCP connection to the next rank and one from the previous rank.
/// It is part of every program, for systems without Gloo, such as macOS.  Each element is summed from rank to
/// rank in one order and the result is passed round, so that all ranks get the same bits.  A rank sends and
/// receives 2 (n − 1) / n of what is summed.  (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce
/// algorithms".)
bool open_ring(const TransportOptions* options, Transport* transport, char* error, size_t error_capacity);

}  // namespace lathe::group
