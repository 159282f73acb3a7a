#pragma once
#include <memory>
#include <string>

#include "lathe/backends/group/gate.h"
#include "lathe/backends/group/transport.h"
#include "lathe/backends/group/world.h"
#include "lathe/core/process_group.h"

namespace lathe::group {

/// Whether the transport of that name ("ring", "gloo") is available; else why not, and what to do.
struct TransportLibrary {
  std::string name;
  OpenTransport open = nullptr;  ///< null: it is not available
  std::string detail;
};
/// "ring" is part of the program; for others it looks where part_places says.  "": gloo, or the ring where
/// gloo is not available.
TransportLibrary find_transport(const std::string& name);

/// Meets the other ranks at the world's address and connects to each.  Rank 0 keeps the store.  Rank 0 calls
/// `warn`, maybe on another thread, if other machines can reach it and there is no secret, and for processes
/// that pose as ranks and are refused.  Errors: kIo if not all ranks come within timeout_s; kUsage if rank 0
/// and another rank differ in secret, run or transport.
std::unique_ptr<ProcessGroup> join(const World& world, const TransportLibrary& transport, double timeout_s,
                                   const Warn& warn = {});

}  // namespace lathe::group
