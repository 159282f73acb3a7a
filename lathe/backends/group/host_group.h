#pragma once
#include <functional>
#include <memory>
#include <string>

#include "lathe/backends/group/gate.h"
#include "lathe/backends/group/transport.h"
#include "lathe/backends/group/world.h"
#include "lathe/core/process_group.h"

namespace lathe::group {

/// Whether the transport of that name ("ring", "gloo") is here; else why not, and what to do.
struct TransportLibrary {
  std::string name;
  OpenTransport open = nullptr;  ///< null: it is not here
  std::string detail;
};
/// "ring" is part of the program; for others it looks where part_places says.  "": gloo, or
/// where that is not here the ring.
TransportLibrary find_transport(const std::string& name);

/// Meets the other ranks at the world's address and connects to each.  Rank 0 keeps the store.  Of it `warn`,
/// which may be called on another thread, is told where other machines can reach it and there is no secret,
/// and of processes that pass for ranks and are sent away.  Errors: kIo where not all come within timeout_s;
/// kUsage where rank 0 and another have not the same secret, run or transport.
std::unique_ptr<ProcessGroup> join(const World& world, const TransportLibrary& transport, double timeout_s,
                                   const Warn& warn = {});

}  // namespace lathe::group
