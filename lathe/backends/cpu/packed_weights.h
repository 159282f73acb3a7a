#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "lathe/backends/cpu/gemm.h"
#include "lathe/backends/cpu/rows.h"
#include "lathe/program/backend.h"

namespace lathe::cpu {

/// Which product reads W as its b.
enum class PackedFor { kForward, kInputGradient, kInt8 };

/// A weight W [rows, cols] in a state, beginning at its element `offset`, and the product that reads it.
struct PackedUse {
  int state = -1;  ///< value id
  int64_t offset = 0, rows = 0, cols = 0;
  PackedFor product = PackedFor::kForward;

  auto operator<=>(const PackedUse&) const = default;
  std::tuple<int64_t, int64_t, int64_t> place() const { return {offset, rows, cols}; }
  bool same_place(const PackedUse& other) const { return place() == other.place(); }
};
/// The weight whose packed copy `node` reads on this level.  None where the product packs for itself:
/// products of f32, weights that are computed, levels without arithmetic on bf16, and the gradient of an
/// input by a weight that is bf16 already: a frozen weight takes 4 bytes with one copy, 6 with two.
std::optional<PackedUse> packed_use(const Node& node, const Program& program, Isa isa);

/// Bytes of that copy.
size_t packed_bytes(const PackedUse& use, Isa isa);

/// The gradients of a state.  They are f32, except those of the elements [first, last), which are bf16 and
/// apart.  `exact` holds the others, one after another; among them is a table of which only some rows are
/// written.
struct Gradients {
  const float* exact = nullptr;
  const std::byte* rounded = nullptr;
  int64_t first = INT64_MAX, last = INT64_MAX;
  const WrittenRows* table = nullptr;

  /// The element of the state whose gradient is `exact[i]`.
  int64_t element(int64_t i) const { return i < first ? i : i + last - first; }
};

/// What an update reads and writes: arrays whose first element belongs to element `origin` of a state.
struct Updated {
  Gradients grad;
  float *param = nullptr, *m = nullptr, *v = nullptr;
  int64_t origin = 0;
};

/// Copies of the weights in one state (f32 or bf16) as the products read them.  AdamW updates the bf16 copies
/// together with the weights.  After any other change of the state they are stale, and are packed again
/// before the next run.  Only inference reads the integer copies, of f32: any change makes them stale.
class PackedState {
 public:
  explicit PackedState(const void* weights, DType type = DType::f32)
      : weights_(static_cast<const std::byte*>(weights)), type_(type) {}

  /// The copy of a weight for `isa`; makes it if there is none.  Its address does not change.  Errors:
  /// kMemory if there is no memory.
  const void* copy(const PackedUse& use, Isa isa);
  bool has(const PackedUse& use, Isa isa) const { return find(use, isa) != nullptr; }
  void changed() { stale_ = int8_stale_ = true; }
  /// The moments of AdamW may have been changed.
  void moments_changed() { still_.clear(); }
  /// Packs what is stale: the copies of bf16, or those in integers.
  void refresh(ThreadPool& pool);
  void refresh_int8(ThreadPool& pool);
  /// Updates the state's elements [begin, begin + count).  Fresh copies stay fresh, except those of weights
  /// that share elements: these are packed again before the next run.
  void adamw(ThreadPool& pool, Isa isa, const AdamW& a, int64_t begin, int64_t count, const Updated& arrays);
  /// All elements but [begin, end) were changed: packs what reads them anew.
  void changed_outside(ThreadPool& pool, int64_t begin, int64_t end);

 private:
  struct Copy {
    PackedUse use;
    Isa isa;
    PackedB layout;
    std::shared_ptr<std::byte> data;
  };
  /// Some rows of one weight, small enough to stay in a thread's cache: elements [begin, end) of the state,
  /// and the copies [first, last) of that weight.
  struct Piece {
    int64_t begin, end;
    size_t first, last;
  };
  /// The copy, or null if there is none.
  const void* find(const PackedUse& use, Isa isa) const;
  void cut();
  void pack(const Piece& piece) const;

  const std::byte* at(int64_t element) const {
    return weights_ + element * static_cast<int64_t>(size_of(type_));
  }

  const std::byte* weights_;
  DType type_;
  std::vector<std::unique_ptr<Copy>> copies_;  // by place
  std::vector<Piece> pieces_;                  // by begin
  struct Int8Copy {
    PackedUse use;
    Isa isa;
    std::shared_ptr<std::byte> data;
  };
  std::vector<Int8Copy> int8_copies_;
  bool stale_ = true, int8_stale_ = true;
  std::vector<size_t> torn_;  // pieces of which only some elements were updated since they were packed
  bool overlapping_ = false;  // pieces of different weights share elements
  // By row of the gradients' table: whether its moments, which lie at still_m_, are known to be 0.
  std::vector<uint8_t> still_;
  const float* still_m_ = nullptr;
};

/// The packed states of a backend, by the memory of the state.
class PackedWeights {
 public:
  /// type: of the state's elements.  Errors: kInternal if the memory has no owner.
  std::shared_ptr<PackedState> of(const Buffer& state, DType type = DType::f32);
  /// Whether there is such a copy of a weight in this memory.
  bool has(const Buffer& state, const PackedUse& use, Isa isa) const;
  /// The host wrote into this memory, which may be that of the moments.
  void changed(const Buffer& state);

 private:
  struct Known {
    std::weak_ptr<void> owner;
    std::shared_ptr<PackedState> state;
  };
  mutable std::mutex mutex_;
  std::map<const std::byte*, Known> states_;
};

}  // namespace lathe::cpu
