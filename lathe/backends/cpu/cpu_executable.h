#pragma once
#include <memory>
#include <mutex>

#include "lathe/backends/cpu/cpu_impl.h"

namespace lathe::cpu {

/// What all programs of a device share.
struct Shared {
  std::mutex& running;  ///< held by a run: only one at a time uses the pool and the packed weights
  ThreadPool& pool;
  PackedWeights& packed;
  ProcessGroup* group;
};

/// A program as a fixed list of calls with fixed addresses.  The bindings must fit the plan.
std::unique_ptr<Executable> make_executable(const Program& program, const Selection& selection,
                                            const MemoryPlan& plan, const Bindings& bindings,
                                            const Shared& shared);

/// A call of the node whose memory is not set yet.
Call call_of(const CpuImpl& impl, const Node& node, const Program& program, ThreadPool& pool,
             ProcessGroup* group);

/// Ops that change a state and keep its packed copies fresh (Call::parameters).
bool keeps_packed(const OpDef& op);

}  // namespace lathe::cpu
