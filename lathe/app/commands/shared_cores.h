#pragma once
#include "lathe/core/process_group.h"

namespace lathe {

/// Ranks of one machine that may run on the same cores take each its part of them: the calling thread and
/// those that it starts stay there.  Gives the threads that this rank shall use, at least 1.  Where a
/// launcher has given each rank cores of its own, nothing changes.  Errors: throws the group's.
int share_cores(ProcessGroup& group);

}  // namespace lathe
