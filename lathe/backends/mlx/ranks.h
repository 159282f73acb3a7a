#pragma once
#include <mlx/mlx.h>

#include <memory>
#include <optional>

#include "lathe/core/process_group.h"
#include "lathe/core/shape.h"

namespace lathe::mlx {

namespace mx = ::mlx::core;

/// The processes that train together, as operations of MLX on one of its CPU streams.
struct Ranks {
  std::shared_ptr<ProcessGroup> group;
  mx::Stream stream;
  std::optional<mx::array>
      last;        ///< of the graph that is being built: exchanges follow one another, as on all ranks
  Status failure;  ///< of the first exchange that failed; read when what was started is done
};

/// Σ over the ranks of x, f32; wire: see ProcessGroup::sum.
mx::array sum_among(Ranks& ranks, const mx::array& x, DType wire);
/// What the ranks give, counts[r] f32 elements each, one after another; `own`: what this rank gives.
mx::array gather_among(Ranks& ranks, const mx::array& own, const Shape& counts);

}  // namespace lathe::mlx
