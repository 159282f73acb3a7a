#include "lathe/program/fusion.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "lathe/core/error.h"

namespace lathe {
namespace {

/// The words of a text; all other characters part them.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool within = false;
  for (const char c : text) {
    const bool letter = std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == ':';
    if (letter && !within) words.emplace_back();
    if (letter) words.back() += c;
    within = letter;
  }
  return words;
}

/// Reads the text of one fused op.
class Reader {
 public:
  Reader(const OpDef& op, const OpDef* (*find)(const std::string&)) : find_(find) {
    fusion_.op = &op;
    for (const InputRule& rule : input_rules(op)) define(rule.name);
    fusion_.inputs = numbers_.size();
  }

  Fusion read() {
    std::string_view rest = fusion_.op->fuses;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(';'), rest.size());
      read_part(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    fusion_.values = numbers_.size();
    for (const std::string& name : output_names(*fusion_.op)) fusion_.out.push_back(number(name));
    check();
    return std::move(fusion_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kInternal, "{}: its parts do not fit: {}", fusion_.op->name,
         fmt::format(format, std::forward<Args>(args)...));
  }

  void define(const std::string& name) {
    if (!numbers_.emplace(name, static_cast<int>(numbers_.size())).second) wrong("{} is given twice", name);
  }
  int number(const std::string& name) const {
    const auto it = numbers_.find(name);
    if (it == numbers_.end()) wrong("{} is not given", name);
    return it->second;
  }

  /// "y mean rstd = layer_norm(sum, gamma, beta) eps:epsilon"
  void read_part(std::string_view text) {
    const size_t equals = text.find('='), open = text.find('('), close = text.find(')');
    if (equals > open || open > close || close == text.npos) wrong("found '{}', expected y = op(x)", text);
    const std::vector<std::string> name = words_of(text.substr(equals + 1, open - equals - 1));
    Fusion::Part part;
    part.op = name.size() == 1 ? find_(name[0]) : nullptr;
    if (part.op == nullptr || part.op->fuses != nullptr || !part.op->in_place.empty() ||
        part.op->aliasing != Aliasing::kNone)
      wrong("'{}' calls no plain op that computes", text);
    for (const std::string& in : words_of(text.substr(open, close - open))) part.in.push_back(number(in));
    for (const std::string& out : words_of(text.substr(0, equals))) {
      define(out);
      part.out.push_back(number(out));
    }
    if (part.in.size() != input_rules(*part.op).size() || part.out.size() != output_names(*part.op).size())
      wrong("'{}' calls {}", text, part.op->signature);
    read_attributes(part, words_of(text.substr(close)));
    fusion_.parts.push_back(std::move(part));
  }

  void read_attributes(Fusion::Part& part, const std::vector<std::string>& renamed) {
    std::map<std::string, std::string> names;
    for (const auto& [name, value] : part.op->attrs) names[name] = name;
    for (const std::string& word : renamed) {
      const size_t colon = std::min(word.find(':'), word.size() - 1);
      const auto it = names.find(word.substr(0, colon));
      if (it == names.end()) wrong("{} has no attribute for {}", part.op->name, word);
      it->second = word.substr(colon + 1);
    }
    for (const auto& [own, name] : names) {
      if (!fusion_.op->attrs.count(name)) wrong("it has no attribute {}, as {} has", name, part.op->name);
      for (const Fusion::Part& other : fusion_.parts)
        for (const auto& [theirs, taken] : other.attrs)
          if (taken == name) wrong("the attribute {} is that of {}, too", name, other.op->name);
      part.attrs.emplace_back(own, name);
    }
  }

  void check() const {
    std::vector<bool> read(fusion_.values, false);
    size_t attributes = 0;
    for (size_t p = fusion_.parts.size(); p-- > 0;) {
      const Fusion::Part& part = fusion_.parts[p];
      const bool feeds =
          std::any_of(part.out.begin(), part.out.end(), [&](int v) { return read[static_cast<size_t>(v)]; });
      if (!feeds && p + 1 < fusion_.parts.size()) wrong("{} feeds no later part", part.op->name);
      for (const int v : part.in) read[static_cast<size_t>(v)] = true;
      attributes += part.attrs.size();
    }
    for (const auto& [name, v] : numbers_) {
      if (static_cast<size_t>(v) >= fusion_.inputs) continue;
      if (!read[static_cast<size_t>(v)]) wrong("no part reads {}", name);
      if (fusion_.is_output(v)) wrong("no part computes {}", name);
    }
    if (fusion_.parts.size() < 2 || attributes != fusion_.op->attrs.size())
      wrong("expected two parts at least and an attribute of one of them for each of its own");
  }

  const OpDef* (*find_)(const std::string&);
  Fusion fusion_;
  std::map<std::string, int> numbers_;  // of values, by name
};

/// One value while the parts run.
struct Computed {
  Type type;
  std::vector<double> values;
  std::vector<double> error;  ///< before it is stored; empty: exact
};

/// Room for the outputs, all 0: references add to what is there.
void clear_outputs(Reference& r) {
  r.out.clear();
  for (const Type& type : r.out_types) r.out.emplace_back(static_cast<size_t>(elements(type)), 0.0);
  r.magnitude = r.out;
}

/// OpDef::moved of an op whose output elements depend only on the input elements at the same place.
Errors moved_by_elements(const Reference& r, const Errors& in) {
  Errors moved(r.out.size());
  for (size_t o = 0; o < moved.size(); ++o) moved[o].resize(r.out[o].size(), 0);
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].empty()) continue;
    Errors most = moved;
    for (const double sign : {-1.0, 1.0}) {
      Reference there = r;
      for (size_t k = 0; k < in[i].size(); ++k) there.in[i][k] += sign * in[i][k];
      clear_outputs(there);
      r.node.op->reference(there);
      for (size_t o = 0; o < moved.size(); ++o) {
        if (moved[o].size() != in[i].size())
          fail(ErrorCode::kInternal, "{} follows others in a fused op and needs OpDef::moved",
               r.node.op->name);
        for (size_t k = 0; k < in[i].size(); ++k)
          most[o][k] = std::max(most[o][k], moved[o][k] + std::abs(there.out[o][k] - r.out[o][k]));
      }
    }
    moved = std::move(most);
  }
  return moved;
}

/// What a part may read instead of the value: it is off by the arithmetic before, and by storing it.
std::vector<double> error_when_read(const Computed& value, bool stored) {
  std::vector<double> error = value.error;
  for (size_t i = 0; stored && i < error.size(); ++i)
    error[i] += storing_error(value.type.dtype, value.values[i]);
  return error;
}

void run_part(const Fusion& fusion, const Fusion::Part& part, const Attrs& attrs,
              std::vector<Computed>& values) {
  const Node node{part.op, part.in, part.out, Fusion::attrs_of(part, attrs)};
  Reference r{node, {}, {}, {}, {}, {}};
  Errors in;
  for (const int v : part.in) {
    const Computed& value = values[static_cast<size_t>(v)];
    r.in_types.push_back(value.type);
    r.in.push_back(value.values);
    in.push_back(error_when_read(value, fusion.is_output(v)));
  }
  r.out_types = infer_types(*part.op, r.in_types, node.attrs);
  clear_outputs(r);
  part.op->reference(r);
  Errors moved;
  if (std::any_of(in.begin(), in.end(), [](const auto& error) { return !error.empty(); }))
    moved = part.op->moved ? part.op->moved(r, in) : moved_by_elements(r, in);
  for (size_t o = 0; o < part.out.size(); ++o) {
    std::vector<double> error = arithmetic_error(*part.op, r, o);
    for (size_t i = 0; i < error.size() && !moved.empty(); ++i) error[i] += moved[o][i];
    values[static_cast<size_t>(part.out[o])] = {r.out_types[o], r.out[o], std::move(error)};
  }
}

}  // namespace

bool Fusion::is_output(int value) const { return std::find(out.begin(), out.end(), value) != out.end(); }

Attrs Fusion::attrs_of(const Part& part, const Attrs& fused) {
  Attrs attrs;
  for (const auto& [own, name] : part.attrs) attrs[own] = fused.at(name);
  return attrs;
}

Fusion take_apart(const OpDef& op, const OpDef* (*find)(const std::string&)) {
  return Reader(op, find).read();
}

void run_parts(const Fusion& fusion, Reference& r) {
  std::vector<Computed> values(fusion.values);
  for (size_t i = 0; i < r.in.size(); ++i) values[i] = {r.in_types[i], r.in[i], {}};
  for (const Fusion::Part& part : fusion.parts) run_part(fusion, part, r.node.attrs, values);
  for (size_t o = 0; o < r.out.size(); ++o) {
    const Computed& value = values[static_cast<size_t>(fusion.out[o])];
    r.out[o] = value.values;
    for (size_t i = 0; i < value.error.size(); ++i) r.magnitude[o][i] = value.error[i] * 0x1p24;
  }
}

Cost cost_of_parts(const Fusion& fusion, const Node& node, const Program& program) {
  Program parts;
  std::vector<Value> values(fusion.values);
  for (size_t i = 0; i < node.in.size(); ++i)
    if (node.in[i] >= 0) values[i] = parts.input(std::to_string(i), program.type(node.in[i]));
  const auto bytes = [&](int v) {
    const Value value = values[static_cast<size_t>(v)];
    return value ? static_cast<double>(bytes_of(value.type())) : 0;
  };
  Cost total;
  for (const Fusion::Part& part : fusion.parts) {
    std::vector<Value> in;
    for (const int v : part.in) {
      in.push_back(values[static_cast<size_t>(v)]);
      if (static_cast<size_t>(v) >= fusion.inputs) total.bytes -= bytes(v);
    }
    const std::vector<Value> out = parts.emit(*part.op, in, Fusion::attrs_of(part, node.attrs));
    for (size_t o = 0; o < out.size(); ++o) {
      values[static_cast<size_t>(part.out[o])] = out[o];
      if (!fusion.is_output(part.out[o])) total.bytes -= bytes(part.out[o]);
    }
    const Cost cost = part.op->cost(parts.nodes().back(), parts);
    total.flops += cost.flops;
    total.bytes += cost.bytes;
  }
  return total;
}

void decompose(Program& program, std::span<const Fusion> fusions) {
  std::vector<Node> nodes;
  for (const Node& node : program.nodes()) {
    const auto fusion =
        std::find_if(fusions.begin(), fusions.end(), [&](const Fusion& f) { return f.op == node.op; });
    if (fusion == fusions.end()) {
      nodes.push_back(node);
      continue;
    }
    std::vector<int> ids(fusion->values, -1);
    std::copy(node.in.begin(), node.in.end(), ids.begin());
    for (size_t o = 0; o < node.out.size(); ++o) ids[static_cast<size_t>(fusion->out[o])] = node.out[o];
    for (const Fusion::Part& part : fusion->parts) {
      Node plain{part.op, {}, {}, Fusion::attrs_of(part, node.attrs), node.segment};
      std::vector<Type> types;
      for (const int v : part.in) {
        plain.in.push_back(ids[static_cast<size_t>(v)]);
        types.push_back(plain.in.back() < 0 ? Type{DType::f32, {-1}} : program.type(plain.in.back()));
      }
      types = infer_types(*part.op, types, plain.attrs);
      for (size_t o = 0; o < types.size(); ++o) {
        int& id = ids[static_cast<size_t>(part.out[o])];
        if (id < 0) id = program.temporary(types[o]).id;
        plain.out.push_back(id);
      }
      nodes.push_back(std::move(plain));
    }
  }
  program.rewrite(std::move(nodes));
}

}  // namespace lathe
