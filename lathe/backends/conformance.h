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
/// bound: outputs and workspace are poisoned with NaN before; guard bytes around every tensor and all inputs
/// are unchanged behind; a second run gives the same bits, and so does one with gaps between the rows of
/// matrices that may have them (Impl::gaps_in); NaN appears where the reference has it.  An op that is
/// OpDef::optional may be missing altogether.
void conformance_test(Backend& backend, const ConformanceFilter& filter, const ConformanceSink& sink);

/// Gradient rule of every differentiable op against finite differences of its reference in double precision;
/// not of ops that take no f32: what rounds its inputs to a few bits has no such differences.
void conformance_grad(const ConformanceFilter& filter, const ConformanceSink& sink);

/// Time of every implementation on each case that it takes; detail holds microseconds, GFLOP/s and GB/s.
void conformance_perf(Backend& backend, const ConformanceFilter& filter, const ConformanceSink& sink);

/// A table op × backend: the names of the implementations, "-" where there is none.
std::string support_table(const std::vector<Backend*>& backends);

}  // namespace lathe
