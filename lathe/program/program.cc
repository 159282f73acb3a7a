#include "lathe/program/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/program/op.h"

namespace lathe {
namespace {

void check_size(std::string_view of, const Type& type) {
  int64_t bytes = static_cast<int64_t>(size_of(type.dtype));
  for (const int64_t dimension : type.shape)
    if (dimension < 0 || __builtin_mul_overflow(bytes, dimension, &bytes))
      fail(ErrorCode::kShape, "{}: {} is no size of a tensor", of, to_string(type));
}

}  // namespace

const Type& Value::type() const {
  if (program == nullptr) fail(ErrorCode::kShape, "found no value, expected one with a type");
  return program->type(id);
}

Value Program::add(ValueInfo info) {
  values_.push_back(std::move(info));
  return {this, static_cast<int>(values_.size()) - 1};
}

Value Program::input(const std::string& name, Type type) {
  if (find(name) >= 0) fail(ErrorCode::kInternal, "program: the name {} is taken", name);
  check_size(name, type);
  return add({std::move(type), ValueKind::kInput, name});
}

Value Program::state(const std::string& name, Type type) {
  if (find(name) >= 0) fail(ErrorCode::kInternal, "program: the name {} is taken", name);
  check_size(name, type);
  return add({std::move(type), ValueKind::kState, name});
}

int Program::find(const std::string& name) const {
  for (size_t i = 0; i < values_.size(); ++i)
    if (values_[i].kind != ValueKind::kTemp && values_[i].name == name) return static_cast<int>(i);
  return -1;
}

std::vector<Value> Program::emit(const OpDef& op, const std::vector<Value>& in, const Attrs& attrs) {
  Node node{&op, {}, {}, op.attrs, segment_};
  for (const auto& [name, attr] : attrs) {
    if (!op.attrs.count(name)) fail(ErrorCode::kInternal, "{}: has no attribute {}", op.name, name);
    node.attrs[name] = attr;
  }
  std::vector<Type> types;
  for (const Value& v : in) {
    if (v && v.program != this)
      fail(ErrorCode::kInternal, "{}: an input belongs to another program", op.name);
    node.in.push_back(v ? v.id : -1);
    types.push_back(v ? v.type() : Type{DType::f32, {-1}});
  }
  std::vector<Type> out_types = infer_types(op, types, node.attrs);
  for (const Type& type : out_types) check_size(op.name, type);
  std::vector<Value> out;
  for (Type& type : out_types) {
    out.push_back(add({std::move(type), ValueKind::kTemp, "", static_cast<int>(nodes_.size())}));
    node.out.push_back(out.back().id);
  }
  nodes_.push_back(std::move(node));
  return out;
}

void Program::output(const std::string& name, Value value, bool of_last_run) {
  if (value.program != this)
    fail(ErrorCode::kInternal, "output {}: {}", name,
         value ? "the value belongs to another program" : "no value is given");
  outputs_.emplace_back(name, value.id);
  of_last_run_.push_back(of_last_run);
}

std::vector<bool> Program::read() const {
  std::vector<bool> read(values_.size(), false);
  for (const auto& [name, id] : outputs_) read[static_cast<size_t>(id)] = true;
  for (const Node& node : nodes_)
    for (const int id : node.in)
      if (id >= 0) read[static_cast<size_t>(id)] = true;
  return read;
}

void Program::remove_dead_nodes() {
  std::vector<bool> needed(values_.size(), false);
  for (const auto& [name, id] : outputs_) needed[static_cast<size_t>(id)] = true;
  // An update of a part of a state is one of the state.
  const auto is_of_state = [&](int id) {
    for (;; id = nodes_[static_cast<size_t>(values_[static_cast<size_t>(id)].producer)].in[0]) {
      const ValueInfo& value = values_[static_cast<size_t>(id)];
      if (value.kind == ValueKind::kState) return true;
      if (value.producer < 0 || nodes_[static_cast<size_t>(value.producer)].op->aliasing != Aliasing::kSlice)
        return false;
    }
  };
  std::vector<Node> kept;
  for (size_t n = nodes_.size(); n-- > 0;) {
    Node& node = nodes_[n];
    bool keep = false;
    for (int id : node.out) keep = keep || needed[static_cast<size_t>(id)];
    for (const InPlace& alias : node.op->in_place)
      keep = keep || is_of_state(node.in[static_cast<size_t>(alias.in)]);
    if (!keep) continue;
    for (int id : node.in)
      if (id >= 0) needed[static_cast<size_t>(id)] = true;
    kept.push_back(std::move(node));
  }
  std::reverse(kept.begin(), kept.end());
  rewrite(std::move(kept));
}

Value Program::temporary(Type type) { return add({std::move(type)}); }

void Program::rewrite(std::vector<Node> nodes) {
  nodes_ = std::move(nodes);
  for (ValueInfo& value : values_) value.producer = -1;
  for (size_t n = 0; n < nodes_.size(); ++n) {
    for (int id : nodes_[n].in)
      if (id >= 0 && values_[static_cast<size_t>(id)].kind == ValueKind::kTemp &&
          values_[static_cast<size_t>(id)].producer < 0)
        fail(ErrorCode::kInternal, "{}: reads %{}, which no node before computes", nodes_[n].op->name, id);
    for (int id : nodes_[n].out) values_[static_cast<size_t>(id)].producer = static_cast<int>(n);
  }
}

std::string Program::dump() const {
  const auto label = [&](int id) {
    if (id < 0) return std::string("-");
    const ValueInfo& value = values_[static_cast<size_t>(id)];
    return value.kind == ValueKind::kTemp ? fmt::format("%{}", id) : value.name;
  };
  std::string text;
  for (const ValueInfo& value : values_)
    if (value.kind != ValueKind::kTemp)
      text += fmt::format("{} {} {}\n", value.kind == ValueKind::kInput ? "input" : "state", value.name,
                          to_string(value.type));
  for (const Node& node : nodes_) {
    std::string out, in;
    for (int id : node.out)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", label(id), to_string(type(id)));
    for (int id : node.in) in += (in.empty() ? "" : ", ") + label(id);
    const std::string attrs = to_string(node.attrs);
    text += fmt::format("{} = {}({}){}{}\n", out, node.op->name, in, attrs.empty() ? "" : " ", attrs);
  }
  for (const auto& [name, id] : outputs_) text += fmt::format("output {} = {}\n", name, label(id));
  return text;
}

std::vector<Value> emit(const OpDef& op, const std::vector<Value>& in, const Attrs& attrs) {
  const auto given = std::ranges::find_if(in, [](const Value& v) { return static_cast<bool>(v); });
  if (given == in.end()) fail(ErrorCode::kShape, "{}: no input is given", op.name);
  return given->program->emit(op, in, attrs);
}

SegmentScope::SegmentScope(Program& program) : program_(program) {
  if (program_.segment_ >= 0) fail(ErrorCode::kInternal, "program: a segment begins within another");
  program_.segment_ = program_.segments_++;
}
SegmentScope::~SegmentScope() { program_.segment_ = -1; }

}  // namespace lathe
