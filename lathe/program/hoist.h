#pragma once
#include "lathe/program/program.h"

namespace lathe {

/// Moves every node of `op`, with the views that only such nodes read, to right after the last node that it
/// depends on; their own order stays.  An op that runs at the same time as the nodes after it then begins as
/// early as it can.  No other node may read what such a node updates in place.
void hoist(Program& program, const OpDef& op);

}  // namespace lathe
