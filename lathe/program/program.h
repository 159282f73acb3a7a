#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/program/attrs.h"

namespace lathe {

struct OpDef;
class Program;

/// A handle to one SSA value of a program.  Default-constructed: no value.
struct Value {
  Program* program = nullptr;
  int id = -1;

  explicit operator bool() const { return program != nullptr; }
  bool operator==(const Value&) const = default;
  /// Errors: kShape if there is no value.
  const Type& type() const;
};

/// Where the content of a value comes from.
enum class ValueKind {
  kInput,  ///< the host writes it before each run
  kState,  ///< lives between runs (parameters, optimizer state); the caller owns its memory
  kTemp,   ///< a node computes it
};

struct ValueInfo {
  Type type;
  ValueKind kind = ValueKind::kTemp;
  std::string name;   ///< inputs and states: unique; temporaries: empty
  int producer = -1;  ///< node that computes it, −1 for inputs and states
};

/// One application of an op.  `in` may hold −1 for an optional input that is not given.
struct Node {
  const OpDef* op = nullptr;
  std::vector<int> in, out;
  Attrs attrs;
  int segment = -1;  ///< the segment to which it belongs, −1: none
};

/// A straight-line SSA program: the whole training step, traced once per shape bucket.  Nodes run in order.
/// No tensor has a negative dimension or more bytes than an int64_t counts: kShape.
class Program {
 public:
  Program() = default;
  Program(const Program&) = delete;  // values point at their program
  Program& operator=(const Program&) = delete;

  /// A tensor that the host writes before each run.  Errors: kInternal if the name is taken.
  Value input(const std::string& name, Type type);
  /// A tensor that lives between runs.  Errors: kInternal if the name is taken.
  Value state(const std::string& name, Type type);
  /// Appends a node.  Missing attributes take the op's defaults.  Errors: kShape if the op's signature does
  /// not admit the inputs; the message names the op, the input, the type found and the type needed.
  std::vector<Value> emit(const OpDef& op, const std::vector<Value>& in, const Attrs& attrs = {});
  /// Names a value that the host reads after a run.  One `of_last_run` can be read only until the next run,
  /// and is not copied before: for what is large and rarely read.  Errors: kInternal for no value, or one
  /// of another program.
  void output(const std::string& name, Value value, bool of_last_run = false);

  const std::vector<ValueInfo>& values() const { return values_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<std::pair<std::string, int>>& outputs() const { return outputs_; }
  bool is_of_last_run(size_t output) const { return of_last_run_[output]; }
  const Type& type(int value) const { return values_[static_cast<size_t>(value)].type; }
  /// Id of the input or state of that name, −1 if there is none.
  int find(const std::string& name) const;

  /// Tokens of the longest row that any batch may have, 0: not known.  A device that pads rows plans its
  /// memory by it, and kernels for longer rows are not used.
  int64_t longest_row() const { return longest_row_; }
  void set_longest_row(int64_t tokens) { longest_row_ = tokens; }

  /// By value: whether a node reads it or the host does.  A kernel need not write a value without a reader.
  std::vector<bool> read() const;

  /// Removes nodes that no output and no state update needs.  Value ids stay.
  void remove_dead_nodes();

  /// For passes: a value that some node of the next `rewrite` computes.
  Value temporary(Type type);
  /// For passes: these take the place of all nodes.  Value ids stay.  Errors: kInternal if a node reads what
  /// no node before it computes; the message names op and value.
  void rewrite(std::vector<Node> nodes);

  /// One line per node: `%7 f32[8, 768] = layer_norm(%3, gamma, beta) eps=1e-12`.
  std::string dump() const;

 private:
  friend class SegmentScope;
  Value add(ValueInfo info);

  std::vector<ValueInfo> values_;
  std::vector<Node> nodes_;
  std::vector<std::pair<std::string, int>> outputs_;
  std::vector<bool> of_last_run_;  // by output
  int segment_ = -1, segments_ = 0;
  int64_t longest_row_ = 0;
};

/// Appends a node to the program of its inputs.  Errors: kShape if none is given; as Program::emit.
std::vector<Value> emit(const OpDef& op, const std::vector<Value>& in, const Attrs& attrs = {});

/// Nodes that are emitted while this lives form a segment.  The backward pass keeps none of its values; it
/// computes them again from what flowed into the segment (gradient checkpointing).  Scopes do not nest.
class SegmentScope {
 public:
  explicit SegmentScope(Program& program);
  ~SegmentScope();
  SegmentScope(const SegmentScope&) = delete;
  SegmentScope& operator=(const SegmentScope&) = delete;

 private:
  Program& program_;
};

}  // namespace lathe
