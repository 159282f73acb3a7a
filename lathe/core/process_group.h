#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "lathe/core/dtype.h"
#include "lathe/core/error.h"

namespace lathe {

/// Processes ("ranks") that train one model together, and what they exchange over the host's network.
/// Every rank makes the same calls in the same order, one at a time.  Errors: kIo, "rank 1 is gone: ..." or
/// that the others did not come within the group's timeout; all later calls then give it too.  kInternal, on
/// every rank, if they do not make the same call: the message names two that differ.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;        ///< of this process, from 0
  virtual int size() const = 0;        ///< ranks, at least 2: a single process has no group
  virtual int local_rank() const = 0;  ///< among the ranks of this machine: the number of the GPU

  /// values[i] = Σ over ranks of values[i], in an order that depends only on size and span; every rank gets
  /// the same bits.  All spans are of one size.  wire: what is sent, f32 or bf16.  With bf16 every number and
  /// every sum of two is rounded to it, and half the bytes are sent.
  virtual Status sum(std::span<float> values, DType wire = DType::f32) = 0;
  /// Every rank gets what `root` holds.  All spans are of one size.
  virtual Status broadcast(std::span<std::byte> bytes, int root) = 0;
  /// What every rank gave, by rank; sizes may differ.
  virtual Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> mine) = 0;
  /// values: parts of counts[r] elements, at least one each, one after the other.  This rank holds its own
  /// and gets the others'.
  virtual Status gather_parts(std::span<float> values, std::span<const int64_t> counts) = 0;
  /// Returns when every rank has called it.
  virtual Status barrier() = 0;

  /// The first rank that was found to be gone.
  virtual std::optional<int> gone() const = 0;

  /// Ranks of this machine, if their launcher tells; else 1.
  virtual int local_size() const { return 1; }
};

}  // namespace lathe
