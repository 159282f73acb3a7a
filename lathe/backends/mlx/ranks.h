#pragma once
#include <mlx/mlx.h>

#include <memory>
#include <optional>

#include "lathe/core/process_group.h"

namespace lathe::mlx {

namespace mx = ::mlx::core;

/// The processes that train together, as operations of MLX on one of its CPU streams.
struct Ranks {
  std::shared_ptr<ProcessGroup> group;
  mx::Stream stream;
  std::optional<mx::array>
      last;        ///< of the graph that is being built: sums follow one another, as on all ranks
  Status failure;  ///< of the first sum that failed; read when what was started is done
};

/// Σ over the ranks of x, f32; wire: see ProcessGroup::sum.
mx::array sum_among(Ranks& ranks, const mx::array& x, DType wire);

}  // namespace lathe::mlx
