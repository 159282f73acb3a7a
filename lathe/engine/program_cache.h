#pragma once
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "lathe/engine/memory_need.h"
#include "lathe/engine/parameters.h"
#include "lathe/engine/programs.h"
#include "lathe/program/backend.h"

namespace lathe {

/// Runs of one kind and shape: what is traced and planned for them.
struct Work {
  ProgramKind kind = ProgramKind::kStep;
  Bucket bucket;
  bool targets = true, base_given = false;
  nn::Quantization quantization = nn::Quantization::kNone;  ///< of kEvaluate; others have the session's
  std::optional<DType> dtype;                               ///< of activations, if another than in training
  auto operator<=>(const Work&) const = default;
};

/// A program and what runs it.  Its outputs have names, which are looked up once, here.
struct CompiledProgram {
  CompiledProgram(std::unique_ptr<Program> traced, std::unique_ptr<Executable> compiled);
  bool gives(Output output) const { return place(output) >= 0; }
  /// As Executable::read.  Errors: kInternal where the program does not give it.
  Status read(Event event, Output output, std::span<std::byte> destination) const;
  /// Of an output that it gives.
  const Type& type(Output output) const;

  std::unique_ptr<const Program> program;
  std::unique_ptr<Executable> executable;

 private:
  int place(Output output) const { return places_[static_cast<size_t>(output)]; }
  std::array<int, kOutputNames.size()> places_{};  // among the program's outputs, −1: it does not give it
};

/// The programs of a session by what they are for: traced, planned, given memory, compiled, and kept.  They
/// share one arena.  Not for several threads at once.
class ProgramCache {
 public:
  /// All must outlive it.  num_labels: as for build_program.  most: programs kept, 1 at least; the one unused
  /// longest goes first.
  ProgramCache(Backend& backend, TaskModel& model, Parameters& parameters, const ProgramOptions& options,
               int64_t num_labels, size_t most);

  /// From now on no row has more than so many tokens, or than were said before, in training or without:
  /// programs and their memory are made for these.
  enum class Rows { kTrained, kEvaluated };
  void expect_rows(Rows rows, int64_t longest);
  /// The longest row that such a program takes; 0: any.
  int64_t longest_row(ProgramKind kind) const;

  /// What these runs take beyond what there is already; planned without allocating anything.
  MemoryNeed memory_need(std::span<const Work> work) const;
  /// What the device has free for this process, as it is when all ranks ask: each must, and what they share
  /// (DeviceInfo::host_memory) is divided among them.  Empty where no rank's device tells.
  std::optional<uint64_t> free_share() const;
  /// Allocates all that these runs take but what the device prepares for itself.  Runs of smaller buckets
  /// then find their memory, too.  Errors: kMemory if that is more than `free`, or the device has not enough;
  /// the message says what would fit.
  void reserve(std::span<const Work> work, std::optional<uint64_t> free);
  /// The same without other ranks: all is this process's that the device has free.
  void reserve(std::span<const Work> work);

  /// What such runs execute; compiled unless it is there already.  It lives as long as somebody has it, and
  /// its arena as long; one that was replaced is not to be run any more.
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
  /// Processes that have the device's memory together.
  int sharers() const;

  Backend& backend_;
  TaskModel& model_;
  Parameters& parameters_;
  ProgramOptions options_;
  int64_t num_labels_;
  size_t most_;
  Buffer arena_;
  std::map<Work, Entry> cache_;
  uint64_t uses_ = 0;
  int64_t longest_trained_ = 0, longest_evaluated_ = 0;  // rows, 0: nobody knows
  uint64_t granted_ = 0;  // bytes of activations that a device which holds them itself had free once
};

}  // namespace lathe
