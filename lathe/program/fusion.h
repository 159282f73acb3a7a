#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/program/op.h"

namespace lathe {

/// A fused op, taken apart.  The text OpDef::fuses is a list of parts, each the call of a plain op:
///
///   d = dropout(x, sample_ids, positions, rng); sum = add(d, r); y mean rstd = layer_norm(sum, gamma, beta)
///
/// Names are those of the fused op's signature, and further ones for values that only later parts read (d).
/// Every part but the last feeds a later one; parts that follow others work row by row.  A part's attributes
/// are the fused op's of the same name; if two parts have the same one, `factor:second` after a call says
/// which it is.
struct Fusion {
  struct Part {
    const OpDef* op = nullptr;
    std::vector<int> in, out;                                  ///< numbers of values
    std::vector<std::pair<std::string, std::string>> attrs{};  ///< its own name, the fused op's
  };
  const OpDef* op = nullptr;
  std::vector<Part> parts;
  /// Values are numbered: the fused op's inputs in their order, then what the parts compute.
  size_t inputs = 0, values = 0;
  std::vector<int> out;  ///< of every output its value

  bool is_output(int value) const;
  /// Attributes of a part, of a node of the fused op with these.
  static Attrs attrs_of(const Part& part, const Attrs& fused);
};

/// Reads `op.fuses`.  `find` gives the plain op of a name, null if there is none.  Errors: kInternal if the
/// text does not fit the signatures and attributes of op and parts; the message names op and part.
Fusion take_apart(const OpDef& op, const OpDef* (*find)(const std::string&));

/// The reference of a fused op: those of its parts one after another, all in double.
///
/// Its magnitude is the whole error that arithmetic in f32 may have, in units of 2⁻²⁴, so its bound is 1 ulp.
/// The error of a part is what its own bound allows, and what errors of its inputs move it by (OpDef::moved).
/// A value that is also an output may have been rounded to its dtype before a later part reads it, or not;
/// others are not rounded.
void run_parts(const Fusion& fusion, Reference& r);

/// Operations of all parts; bytes as if no part read what another has just computed.
Cost cost_of_parts(const Fusion& fusion, const Node& node, const Program& program);

/// Replaces every fused node by its parts.  Value ids stay; values that only parts read get new ones.
void decompose(Program& program, std::span<const Fusion> fusions);

}  // namespace lathe
