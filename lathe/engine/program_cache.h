#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lathe/engine/memory_need.h"
#include "lathe/engine/parameters.h"
#include "lathe/engine/programs.h"
#include "lathe/program/backend.h"

namespace lathe {

/// Runs of one kind and shape, for which a program is traced and planned.
struct Work {
  ProgramKind kind = ProgramKind::kStep;
  Bucket bucket;
  bool targets = true, scores = true, base_given = false;   ///< scores: kEvaluate gives the logits
  bool gradient_given = false;                              ///< ProgramOptions::gradient_given
  int64_t head_width = 0;                                   ///< ProgramOptions::head_width
  nn::Quantization quantization = nn::Quantization::kNone;  ///< of kEvaluate; others have the session's
  std::optional<DType> dtype;                               ///< of activations, if not that of training
  auto operator<=>(const Work&) const = default;
};

/// A program and what runs it.
struct CompiledProgram {
  CompiledProgram(std::unique_ptr<Program> traced, std::unique_ptr<Executable> compiled);
  bool gives(std::string_view output) const { return place(output) >= 0; }
  /// As Executable::read.  Errors: kInternal if the program does not have this output.
  Status read(Event event, std::string_view output, std::span<std::byte> destination) const;
  /// The type of an output that the program has.
  const Type& type(std::string_view output) const;

  std::unique_ptr<const Program> program;
  std::unique_ptr<Executable> executable;

 private:
  int place(std::string_view output) const;  // index among the program's outputs; −1: not there
};

/// The programs of a session by purpose: traced, planned, given memory, compiled, and kept.  They share one
/// arena.  Not for several threads at the same time.
class ProgramCache {
 public:
  /// All must outlive it. most: programs kept, at least 1; the one that was
  /// unused for the longest time goes first.
  ProgramCache(Backend& backend, TaskModel& model, Parameters& parameters, const ProgramOptions& options,
               size_t most);

  /// Promises that from now on no row has more tokens than this, or than promised earlier, in training or
  /// outside.  Programs and their memory are made for these lengths.
  enum class Rows { kTrained, kEvaluated };
  void expect_rows(Rows rows, int64_t longest);
  /// The longest row that such a program takes; 0: any.
  int64_t longest_row(ProgramKind kind) const;

  /// What these runs need in addition to what is there already; planned without allocating anything.
  MemoryNeed memory_need(std::span<const Work> work) const;
  /// The device's free memory for this process, when all ranks ask: each rank must call it, and memory that
  /// they share (DeviceInfo::host_memory) is divided among them.  Empty if no rank's device tells.
  std::optional<uint64_t> free_share() const;
  /// Allocates all that these runs need, except what the device prepares for itself.  Runs of smaller buckets
  /// then find their memory, too.  Errors: kMemory if that is more than `free`, or if the device does not
  /// have enough; the message says what would fit.
  void reserve(std::span<const Work> work, std::optional<uint64_t> free);
  /// The same without other ranks: this process gets all free memory of the device.
  void reserve(std::span<const Work> work);

  /// The program that such runs execute; compiled unless it is there already.  It lives while somebody holds
  /// it, and so does its arena.  A program that was replaced must not be run any more.
  std::shared_ptr<const CompiledProgram> compile(const Work& work);

  size_t size() const { return cache_.size(); }
  size_t arena_bytes() const { return arena_.bytes; }

 private:
  struct Planned {
    std::unique_ptr<Program> program;
    Selection selection;
    MemoryPlan memory;
  };
  struct Entry {
    std::shared_ptr<const CompiledProgram> compiled;
    uint64_t last_use = 0;
  };

  Planned planned(const Work& work, int64_t recompute_every) const;
  std::vector<Planned> planned(std::span<const Work> work) const;
  MemoryNeed memory_need(std::span<const Planned> plans) const;
  /// Allocates what the plans need.
  void provide(std::span<const Planned> plans, std::span<const Work> work, std::optional<uint64_t> free);
  std::string shortage(const MemoryNeed& need, uint64_t free, const Work& largest) const;
  void make_room();
  void grow_arena(size_t bytes);
  Bindings bindings() const { return {parameters_.buffers(), arena_}; }
  /// The number of processes that share the device's memory.
  int sharers() const;

  Backend& backend_;
  TaskModel& model_;
  Parameters& parameters_;
  ProgramOptions options_;
  size_t most_;
  Buffer arena_;
  std::map<Work, Entry> cache_;
  uint64_t uses_ = 0;
  int64_t longest_trained_ = 0, longest_evaluated_ = 0;  // rows, 0: nobody knows
  uint64_t granted_ = 0;  // bytes of activations that a device which holds them itself had free once
};

}  // namespace lathe
