#pragma once
#include <string>

#include "lathe/program/op.h"

namespace lathe {

/// The ops of a program by name, in the order of nodes.
inline std::string ops_of(const Program& program) {
  std::string names;
  for (const Node& node : program.nodes()) names += (names.empty() ? "" : " ") + std::string(node.op->name);
  return names;
}

}  // namespace lathe
