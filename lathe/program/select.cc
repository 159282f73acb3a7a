#include <algorithm>
#include <set>

#include "lathe/program/backend.h"

namespace lathe {

Selection select(const Program& program, const Backend& backend) {
  Selection selection;
  std::set<std::string> gaps;
  for (const Node& node : program.nodes()) {
    const Impl* chosen = nullptr;
    for (const Impl* impl : backend.implementations(*node.op))
      if (!impl->accepts || impl->accepts(node, program)) {
        chosen = impl;
        break;
      }
    if (chosen == nullptr) {
      std::string types;
      for (int id : node.in)
        types += (types.empty() ? "" : ", ") + (id < 0 ? "-" : to_string(program.type(id)));
      gaps.insert(fmt::format("{}({})", node.op->name, types));
    }
    selection.push_back(chosen);
  }
  if (!gaps.empty()) {
    std::string list;
    for (const std::string& gap : gaps) list += "\n  " + gap;
    const std::string own = backend.way_out(ErrorCode::kUnsupported);
    const std::string other = (own.empty() ? "Use" : own + ", or use") + " --device cpu, which has them all.";
    // The cpu lacks ops of the caller's own, and those of other devices.
    const bool is_cpu = backend.info().kind == "cpu";
    fail(ErrorCode::kUnsupported, "device {} has no implementation of:{}{}", backend.info().kind, list,
         is_cpu ? "" : "\n" + other);
  }
  return selection;
}

}  // namespace lathe
