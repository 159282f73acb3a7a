#pragma once
#include <memory>
#include <vector>

#include "lathe/backends/conformance.h"
#include "lathe/ops/ops.h"
#include "lathe/program/program.h"

// What conformance tries: ops with their cases.

namespace lathe {

/// In [−1, 1), the same for the same two numbers.
double unit_random(uint32_t stream, uint32_t i);

/// One op with one case and one dtype, ready to run: its program, the content of its inputs, and the results
/// of the reference.
struct TestBench {
  std::string dtypes;  ///< for people
  Program program;
  std::vector<Type> in_types;
  std::vector<std::vector<std::byte>> inputs;
  std::unique_ptr<Reference> expected;
  const Node& node() const { return program.nodes()[0]; }
};

/// Draws, adjusts and rounds the inputs, and runs the reference.  alike: inputs that may be f32 or have the
/// dtype of another have that.
std::unique_ptr<TestBench> make_bench(const OpDef& op, const Case& c, DType dtype, bool alike = false);
/// Whether an op has such inputs.
bool has_inputs_alike(const OpDef& op);

/// Whether the op writes an output over this input; then the input is a state of the bench's program.
bool updates_in_place(const OpDef& op, size_t input);

/// f(op, case) for each that the filter takes.
template <typename F>
void for_each_case(const ConformanceFilter& filter, F f) {
  for (const OpDef* op : all_ops()) {
    if (!filter.op.empty() && filter.op != op->name) continue;
    for (const Case& c : op->cases())
      if (filter.case_name.empty() || filter.case_name == c.name) f(*op, c);
  }
}

}  // namespace lathe
