#include "lathe/program/row_gaps.h"

#include <numeric>

namespace lathe {
namespace {

/// Values that have gaps together or not at all.
class Groups {
 public:
  explicit Groups(size_t values) : up_(values), dense_(values, false) {
    std::iota(up_.begin(), up_.end(), 0);
  }
  void join(int a, int b) {
    const int root = root_of(a), other = root_of(b);
    up_[static_cast<size_t>(other)] = root;
    if (dense_[static_cast<size_t>(other)]) keep_dense(root);
  }
  void keep_dense(int id) { dense_[static_cast<size_t>(root_of(id))] = true; }
  bool is_dense(int id) const { return dense_[static_cast<size_t>(root_of(id))]; }

 private:
  int root_of(int id) const {
    while (up_[static_cast<size_t>(id)] != id) id = up_[static_cast<size_t>(id)];
    return id;
  }
  std::vector<int> up_;
  std::vector<bool> dense_;  // by root
};

bool wants_gaps(const ValueInfo& value, RowGap gap) {
  const Type& type = value.type;
  return value.kind == ValueKind::kTemp && type.shape.size() == 2 && size_of(type.dtype) == 2 &&
         static_cast<size_t>(type.shape[1]) * size_of(type.dtype) % gap.every == 0;
}

}  // namespace

std::vector<int64_t> row_gaps(const Program& program, const Selection& selection, RowGap gap) {
  const size_t count = program.values().size();
  std::vector<int64_t> ld(count, 0);
  if (gap.every == 0) return ld;
  Groups groups(count);
  for (size_t id = 0; id < count; ++id)
    if (!wants_gaps(program.values()[id], gap)) groups.keep_dense(static_cast<int>(id));
  for (const auto& [name, id] : program.outputs()) groups.keep_dense(id);
  for (size_t n = 0; n < selection.size(); ++n) {
    const Node& node = program.nodes()[n];
    std::vector<int> taken;  // with gaps
    const auto visit = [&](const std::vector<int>& ids, uint32_t gaps) {
      for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] < 0) continue;
        if (i < 32 && (gaps >> i & 1) != 0)
          taken.push_back(ids[i]);
        else
          groups.keep_dense(ids[i]);
      }
    };
    visit(node.in, selection[n]->gaps_in);
    visit(node.out, selection[n]->gaps_out);
    for (size_t i = 0; i < taken.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (program.type(taken[i]) == program.type(taken[j])) groups.join(taken[j], taken[i]);
  }
  for (size_t id = 0; id < count; ++id) {
    const Type& type = program.type(static_cast<int>(id));
    if (!groups.is_dense(static_cast<int>(id)))
      ld[id] = type.shape[1] + static_cast<int64_t>(gap.bytes / size_of(type.dtype));
  }
  return ld;
}

size_t placed_bytes(const Type& type, int64_t ld) {
  return ld == 0 ? bytes_of(type) : static_cast<size_t>(type.shape[0] * ld) * size_of(type.dtype);
}

}  // namespace lathe
