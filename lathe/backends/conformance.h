#pragma once
#include <functional>
#include <string>
#include <vector>

#include "lathe/program/backend.h"

namespace lathe {

/// Which ops, cases and dtypes to take; an empty string takes all.
struct ConformanceFilter {
  std::string op, case_name, dtype = {};
};

struct ConformanceResult {
  std::string id;  ///< "linear avx512 [7, 31, 33] bf16": op, implementation, case, dtype
  bool passed = true;
  std::string detail;  ///< why not; or the measured speed
};

using ConformanceSink = std::function<void(const ConformanceResult&)>;

/// Every op × accepting implementation × case × dtype of the backend against the reference, within the op's
/// bound.  Outputs and workspace are filled with NaN before the run.  After the run the guard bytes around
/// every tensor and all inputs are unchanged.  A second run gives the same bits, and so does a run with gaps
/// between the rows of matrices that may have them (Impl::gaps_in).  NaN appears where the reference has it.
/// An op that is OpDef::optional may be missing.
void conformance_test(Backend& backend, const ConformanceFilter& filter, const ConformanceSink& sink);

/// The gradient rule of every differentiable op against finite differences of its reference in double
/// precision.  Ops that take no f32 are left out: they round their inputs to a few bits, so finite
/// differences say nothing.
void conformance_grad(const ConformanceFilter& filter, const ConformanceSink& sink);

/// Time of every implementation on each case that it takes; detail holds microseconds, GFLOP/s and GB/s.
void conformance_perf(Backend& backend, const ConformanceFilter& filter, const ConformanceSink& sink);

/// A table op × backend: the names of the implementations, "-" where there is none.
std::string support_table(const std::vector<Backend*>& backends);

}  // namespace lathe
