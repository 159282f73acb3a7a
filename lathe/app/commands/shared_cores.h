#pragma once
#include "lathe/core/process_group.h"

namespace lathe {

/// Divides cores among the ranks of one machine that may run on the same cores: the calling thread and those
/// that it starts stay on their part.  Returns the number of threads for this rank, at least 1.  Nothing
/// changes if a launcher has given each rank its own cores.  Errors: throws the group's.
int share_cores(ProcessGroup& group);

}  // namespace lathe
