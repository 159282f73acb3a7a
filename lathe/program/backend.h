#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/process_group.h"
#include "lathe/core/token_rounding.h"
#include "lathe/program/op.h"

namespace lathe {

/// A piece of memory and its owner.
struct Buffer {
  std::shared_ptr<void> owner;
  std::byte* data = nullptr;
  size_t bytes = 0;
};

struct DeviceInfo {
  std::string kind;                         ///< "cpu", "cuda", "mps", "mlx", "ref"
  std::string name;                         ///< for people: "Intel Xeon, 2 threads, amx"
  size_t memory_bytes = 0;                  ///< total
  size_t alignment = 64;                    ///< of every value in the arena, bytes
  TokenRounding token_rounding = {32, 32};  ///< of a batch that is packed for this device
  bool caller_memory =
      true;                  ///< false: the device manages memory itself and a MemoryPlan is only an estimate
  bool host_memory = false;  ///< its memory is the machine's, which ranks there share
};

/// The time during which the memory of a node is in use, as indices of nodes: `first` ≤ the node ≤ `last`,
/// which may be the number of nodes.  Also, every value lives from the node that writes it to the last node
/// that reads it.
struct InUse {
  int first, last;         ///< outputs and workspace from `first` on, the workspace to `last`
  bool inputs = true;      ///< inputs, too, to `last`
  uint32_t outputs = ~0u;  ///< these outputs (bit i: output i), too, to `last`
};

struct Impl;
/// The implementation chosen for every node of a program, in node order.
using Selection = std::vector<const Impl*>;

/// One way of running one op on one device.  A backend owns an ordered list per op, best first.  Where values
/// lie is said by three things: `in_use` (how long they live), `may_overwrite`, and the gaps between rows.
struct Impl {
  std::string name;
  std::function<bool(const Node&, const Program&)> accepts;
  std::function<size_t(const Node&, const Program&)> workspace_bytes;  ///< 0 if empty
  /// Empty: only while the node itself runs.
  std::function<InUse(int node, const Program&, const Selection&)> in_use;
  /// Pairs in which the output may be written over the input once nothing reads the input any more.  Each
  /// output takes the first such input; an output that nothing reads takes none.  So what is written stays
  /// close to the thread that has just read it.
  std::vector<InPlace> may_overwrite = {};
  /// Inputs and outputs (bit i) that may be matrices with gaps between their rows (MemoryPlan::Place); all of
  /// one type have the same gaps.
  uint32_t gaps_in = 0, gaps_out = 0;
  /// Not empty: the implementation is used only where a self-test has found it right and faster than the
  /// parts of its op (kernel_verdicts.h).  The key names what that verdict holds for.  It has nothing to do
  /// with memory; the seam has it for the self-test (`lathe doctor --self-test`), which reads it on every
  /// device.
  std::string key = {};
  virtual ~Impl() = default;
};

/// Where values are stored.  Inputs and temporaries have offsets into one arena; states, their in-place
/// successors and views are in the state's own buffer.
struct MemoryPlan {
  struct Place {
    int state = -1;     ///< id of the state whose buffer holds it; −1: in the arena
    size_t offset = 0;  ///< bytes
    int64_t ld = 0;     ///< elements from row to row of a matrix with gaps; 0: none
  };
  std::vector<Place> places;       ///< one per value
  std::vector<size_t> workspaces;  ///< one per node: offset in the arena; meaningless for a node without one
  size_t arena_bytes = 0;
};

/// Host memory of every input of one run, in the program's order of inputs.
struct Slot {
  std::vector<std::span<const std::byte>> inputs;
};

/// A run that was started.  Outputs of the last `Executable::kRing` runs can be read.
struct Event {
  uint64_t ticket = 0;
};

/// Nanoseconds that one node took, for profiles.
struct Span {
  int node = 0;
  int64_t begin_ns = 0, end_ns = 0;
};

/// How often one run asks a device for each kind of work: kernels, copies, an array library's primitives.
using Launches = std::map<std::string, int64_t>;

/// Memory that an executable works on: one buffer per state of the program, by name, and the arena.
struct Bindings {
  std::map<std::string, Buffer> states;
  Buffer arena;
};

/// A compiled program: replayable, with fixed addresses and no allocation where the device has caller_memory.
/// For one thread at a time; several threads may each have one of the same device.
class Executable {
 public:
  static constexpr int kRing = 4;
  virtual ~Executable() = default;
  /// Starts one run; may return before it has finished.  The slot may be reused after `wait`.
  virtual Status run(const Slot& slot, Event* event) = 0;
  virtual Status wait(Event event) = 0;
  /// Waits for the run and copies its output `index` (in the program's order) to `destination`.  Outputs that
  /// the program lists in `of_last_run` can be read of the last run only, and no other run may have used the
  /// same arena since.
  virtual Status read(Event event, size_t index, std::span<std::byte> destination) = 0;
  /// What one run of this slot launches; empty where the device does not tell.  Runs nothing.
  virtual Result<Launches> launches(const Slot&) { return Launches{}; }
  /// Measures each node from now on.  `timeline` gives the spans of the last finished run.
  virtual void profile(bool on) = 0;
  virtual std::vector<Span> timeline() const = 0;
};

/// A device: the one seam between the program and what runs it.  All methods may be called from any thread.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const DeviceInfo& info() const = 0;
  /// Errors: kMemory.
  virtual Result<Buffer> allocate(size_t bytes) = 0;
  /// Memory that is free now; empty where the device does not tell.  Where the system provides
  /// pages at the first touch, buffers that nothing has written to yet still count as free.
  virtual std::optional<size_t> free_bytes() const { return {}; }
  /// Host → device and device → host, synchronously.  copy_in: not while an executable runs.
  virtual Status copy_in(const Buffer& to, size_t offset, std::span<const std::byte> from) = 0;
  virtual Status copy_out(std::span<std::byte> to, const Buffer& from, size_t offset) = 0;
  /// The processes among which all_reduce sums and the other exchanges gather; null: this process only.
  virtual ProcessGroup* group() const { return nullptr; }
  /// All implementations of an op, best first.
  virtual std::vector<const Impl*> implementations(const OpDef& op) const = 0;
  /// What was tuned on this device so far (algorithms of a library), as text; empty if nothing was.  If it is
  /// passed to adopt_tuning before `compile`, a later run computes the same bits.  adopt_tuning ignores what
  /// was tuned on another device.  Errors: throws kInvalidData if the text is broken.
  virtual std::string tuning() const { return {}; }
  virtual void adopt_tuning(const std::string&) {}
  /// What a user can set so that the device takes a run that it `refused` (kMemory, kUnsupported): a clause
  /// for messages of the engine and of `select`, which ask every device.  Empty if there is nothing.
  virtual std::string way_out(ErrorCode /*refused*/) const { return {}; }
  /// Where the values of a program lie on this device.  A device may override it: the cpu asks for gaps
  /// between rows, mlx counts memory of its own.  Errors: as plan_memory (memory_plan.h).
  virtual MemoryPlan plan(const Program& program, const Selection& selection) const;
  /// Bytes that `compile` will allocate in addition to arena and states, without those that it has already
  /// allocated for the same states.
  virtual size_t prepared_bytes(const Program&, const Selection&, const Bindings&) const { return 0; }
  /// Runs one single node on memory of the caller and on this device's threads.  It reads the operands and
  /// writes the results in place (null: an optional input that is not given); an operand that the op updates
  /// in place has the same address as its result.  workspace: as large as `impl` says, aligned as `info`
  /// says.  With this, another device with the same memory runs ops that it lacks: mlx those that only the
  /// cpu has.  Errors: kUnsupported where the device does not work on the host's memory.
  virtual Status run_node(const Program&, const Node&, const Impl&, std::span<std::byte* const> /*in*/,
                          std::span<std::byte* const> /*out*/, std::byte* /*workspace*/) {
    return {ErrorCode::kUnsupported, info().kind + " runs no single nodes over memory of others"};
  }
  /// Errors: kInternal if the bindings do not fit the plan.
  virtual Result<std::unique_ptr<Executable>> compile(const Program& program, const Selection& selection,
                                                      const MemoryPlan& plan, const Bindings& bindings) = 0;
};

/// The first accepting implementation of every node.  Errors: kUnsupported naming every op (and its types)
/// for which the backend has none.
Selection select(const Program& program, const Backend& backend);

}  // namespace lathe
