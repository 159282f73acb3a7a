#pragma once
#include <memory>

#include "lathe/program/backend.h"

namespace lathe {

/// The oracle: runs every node by its op's reference in double precision, one thread, never optimised.
/// Temporaries keep double precision, whatever their dtype; states are rounded to theirs when a run ends.
/// all_reduce sums among `group` in double, by rank; all_gather and gather_ranks gather among it.
std::unique_ptr<Backend> make_ref_backend(std::shared_ptr<ProcessGroup> group = {});

/// Elements of a tensor in memory as doubles, and back (rounding to the dtype).
std::vector<double> load_doubles(DType dtype, const std::byte* data, size_t count);
void store_doubles(DType dtype, std::byte* data, const std::vector<double>& values);

}  // namespace lathe
