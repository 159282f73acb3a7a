#include "lathe/backends/cpu/written_rows.h"

#include "lathe/backends/cpu/rows.h"
#include "lathe/ops/optimizers/flat.h"
#include "lathe/ops/optimizers/optimizer.h"
#include "lathe/ops/rows.h"

namespace lathe::cpu {
namespace {

/// The nodes that read a value; −1 is the host.
std::vector<int> readers_of(const Program& program, int value) {
  std::vector<int> readers;
  for (size_t n = 0; n < program.nodes().size(); ++n)
    for (const int in : program.nodes()[n].in)
      if (in == value) readers.push_back(static_cast<int>(n));
  for (const auto& [name, output] : program.outputs())
    if (output == value) readers.push_back(-1);
  return readers;
}

/// Whether a node reads `value` only as gradients of f32.
bool takes_gradients(const Program& program, int reader, int value) {
  if (reader < 0) return false;
  const Node& node = program.nodes()[static_cast<size_t>(reader)];
  const size_t place = node.op == &op::adamw ? 1 : 0;
  return (node.op == &op::adamw || node.op == &op::grad_norm) && node.in[place] == value &&
         std::count(node.in.begin(), node.in.end(), value) == 1;
}

}  // namespace

TableGradient find_table_gradient(const Program& program) {
  for (size_t n = 0; n < program.nodes().size(); ++n) {
    const Node& scatter = program.nodes()[n];
    if (scatter.op != &op::scatter_add_rows || scatter.attrs.i("rows") < Rows::kSmallTable) continue;
    const std::vector<int> only = readers_of(program, scatter.out[0]);
    if (only.size() != 1 || only[0] < 0) continue;
    const Node& concat = program.nodes()[static_cast<size_t>(only[0])];
    if (concat.op != &op::concat) continue;
    TableGradient found{static_cast<int>(n), readers_of(program, concat.out[0])};
    if (!std::all_of(found.readers.begin(), found.readers.end(),
                     [&](int reader) { return takes_gradients(program, reader, concat.out[0]); }))
      continue;
    for (size_t i = 0; concat.in[i] != scatter.out[0]; ++i)
      found.begin += elements(program.type(concat.in[i]));
    return found;
  }
  return {};
}

}  // namespace lathe::cpu
