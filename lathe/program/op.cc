#include "lathe/program/op.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "lathe/core/error.h"

namespace lathe {
namespace {

/// One tensor of a signature, taken apart: `name[dims]:suffix|other?`.
struct Term {
  std::string text, name, suffix, other;
  std::vector<std::string> dims;
  bool optional = false;
};

struct Signature {
  std::vector<Term> in, out;
  /// Of input i; an op that takes any number has one term for all of them.
  const Term& input(size_t i) const { return in[std::min(i, in.size() - 1)]; }
};

Term parse_term(const OpDef& op, const std::string& text) {
  Term term{text};
  const size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos)
    fail(ErrorCode::kInternal, "{}: malformed signature at {}", op.name, text);
  term.name = text.substr(0, open);
  std::istringstream dims(text.substr(open + 1, close - open - 1));
  for (std::string dim; std::getline(dims, dim, ',');) term.dims.push_back(dim);
  std::string rest = text.substr(close + 1);
  if (!rest.empty() && rest.back() == '?') {
    term.optional = true;
    rest.pop_back();
  }
  const size_t bar = std::min(rest.find('|'), rest.size());
  if (bar < rest.size()) term.other = rest.substr(bar + 1);
  if (!rest.empty() && rest[0] == ':') term.suffix = rest.substr(1, bar - 1);
  return term;
}

Signature parse(const OpDef& op) {
  Signature signature;
  std::istringstream words(op.signature);
  bool outputs = false;
  for (std::string word; words >> word;) {
    if (word == "->")
      outputs = true;
    else
      (outputs ? signature.out : signature.in).push_back(parse_term(op, word));
  }
  return signature;
}

/// Dimension names bound while the inputs are read.
class Binder {
 public:
  Binder(const OpDef& op, const Attrs& attrs) : op_(op), attrs_(attrs) {}

  void match(const Term& term, const Type& type) {
    const bool any = std::count(term.dims.begin(), term.dims.end(), "..") > 0;
    const size_t fixed = term.dims.size() - (any ? 1 : 0), rank = type.shape.size();
    if (any ? rank < fixed : rank != fixed)
      fail(ErrorCode::kShape, "{}: {} is {}, but the signature needs {}", op_.name, term.name,
           to_string(type), term.text);
    size_t at = 0;
    for (const std::string& dim : term.dims) {
      if (dim == "..") {
        const Shape batch(type.shape.begin() + static_cast<long>(at),
                          type.shape.begin() + static_cast<long>(at + rank - fixed));
        if (has_batch_ && batch != batch_)
          fail(ErrorCode::kShape, "{}: {} has leading dimensions {}, the inputs before have {}", op_.name,
               term.name, to_string(batch), to_string(batch_));
        batch_ = batch;
        has_batch_ = true;
        at += batch.size();
      } else {
        match_one(term, dim, type.shape[at++]);
      }
    }
  }

  Shape shape_of(const Term& term) const {
    Shape shape;
    for (const std::string& dim : term.dims) {
      if (dim == "..")
        shape.insert(shape.end(), batch_.begin(), batch_.end());
      else
        shape.push_back(value_of(dim));
    }
    return shape;
  }

 private:
  /// A dimension `factor name + offset`; name is empty for a number.
  struct Dimension {
    int64_t factor = 1, offset = 0;
    std::string name;
  };
  static Dimension dimension(const std::string& dim) {
    const size_t digits = std::min(dim.find_first_not_of("0123456789"), dim.size());
    const size_t plus = std::min(dim.find('+'), dim.size());
    Dimension d;
    if (digits > 0) d.factor = std::stoll(dim.substr(0, digits));
    if (plus < dim.size()) d.offset = std::stoll(dim.substr(plus + 1));
    d.name = dim.substr(digits, plus - digits);
    return d;
  }

  void match_one(const Term& term, const std::string& dim, int64_t found) {
    const Dimension d = dimension(dim);
    if (d.name.empty() || dim[0] == '@') {
      if (found != value_of(dim))
        fail(ErrorCode::kShape, "{}: {} has {}, expected {}{}", op_.name, term.name, found,
             dim[0] == '@' ? dim.substr(1) + " = " : "", value_of(dim));
      return;
    }
    if ((found - d.offset) % d.factor != 0)
      fail(ErrorCode::kShape, "{}: {} has {}, expected {}, a multiple of {}", op_.name, term.name, found, dim,
           d.factor);
    const auto [it, fresh] = bound_.try_emplace(d.name, (found - d.offset) / d.factor);
    if (!fresh && it->second * d.factor + d.offset != found)
      fail(ErrorCode::kShape, "{}: {} has {} = {}, but {} was bound to {}", op_.name, term.name, dim, found,
           d.name, it->second);
  }

  int64_t value_of(const std::string& dim) const {
    if (dim[0] == '@') return attrs_.i(dim.substr(1));
    const Dimension d = dimension(dim);
    if (d.name.empty()) return d.factor;
    const auto it = bound_.find(d.name);
    if (it == bound_.end()) fail(ErrorCode::kInternal, "{}: dimension {} is not bound", op_.name, dim);
    return it->second * d.factor + d.offset;
  }

  const OpDef& op_;
  const Attrs& attrs_;
  std::map<std::string, int64_t> bound_;
  Shape batch_;
  bool has_batch_ = false;
};

/// A product over nothing has no meaning, and kernels divide by the width of rows.  The rows of the first
/// input may be none, also where they are another's columns.
void check_rows(const OpDef& op, const Signature& signature, const Term& term, const Type& type) {
  if (term.dims.size() < 2 || type.shape.back() != 0 || term.dims.back() == "..") return;
  if (term.dims.back() != signature.in[0].dims[0])
    fail(ErrorCode::kShape, "{}: {} is {}, expected rows of at least one element", op.name, term.name,
         to_string(type));
}

void check_dtype(const OpDef& op, const Term& term, const Type& type,
                 const std::map<std::string, DType>& known) {
  DType wanted;
  if (!term.other.empty() && type.dtype == known.at(term.other)) return;
  if (dtype_of(term.suffix, &wanted)) {
    if (type.dtype != wanted)
      fail(ErrorCode::kShape, "{}: {} is {}, expected {}{}", op.name, term.name, to_string(type), term.suffix,
           term.other.empty() ? "" : " or the dtype of " + term.other);
  } else if (!term.suffix.empty()) {
    if (type.dtype != known.at(term.suffix))
      fail(ErrorCode::kShape, "{}: {} is {}, expected the dtype of {}, {}", op.name, term.name,
           to_string(type), term.suffix, name_of(known.at(term.suffix)));
  } else if (std::find(op.dtypes.begin(), op.dtypes.end(), type.dtype) == op.dtypes.end()) {
    fail(ErrorCode::kShape, "{}: {} is {}, a dtype that this op does not take", op.name, term.name,
         to_string(type));
  }
}

}  // namespace

std::vector<Type> infer_types(const OpDef& op, std::span<const Type> in, const Attrs& attrs) {
  const Signature signature = parse(op);
  if (op.aliasing == Aliasing::kConcat ? in.empty() : in.size() != signature.in.size())
    fail(ErrorCode::kShape, "{}: {} inputs given, expected {}: {}", op.name, in.size(), signature.in.size(),
         op.signature);
  const auto is_given = [&](size_t i) { return in[i].shape != Shape{-1}; };
  for (size_t i = 0; i < in.size(); ++i)
    if (!is_given(i) && !signature.input(i).optional)
      fail(ErrorCode::kShape, "{}: {} is not given", op.name, signature.input(i).name);
  if (op.infer) return op.infer(in, attrs);
  Binder binder(op, attrs);
  std::map<std::string, DType> dtypes;
  for (size_t i = 0; i < in.size(); ++i) {
    const Term& term = signature.in[i];
    if (!is_given(i)) continue;
    check_dtype(op, term, in[i], dtypes);
    dtypes[term.name] = in[i].dtype;
    binder.match(term, in[i]);
    check_rows(op, signature, term, in[i]);
  }
  if (op.check) op.check(in, attrs);
  std::vector<Type> out;
  for (const Term& term : signature.out) {
    Type type{DType::f32, binder.shape_of(term)};
    if (!term.suffix.empty() && !dtype_of(term.suffix, &type.dtype)) type.dtype = dtypes.at(term.suffix);
    check_rows(op, signature, term, type);
    out.push_back(type);
  }
  return out;
}

std::string input_name(const OpDef& op, size_t i) { return parse(op).input(i).name; }

std::vector<InputRule> input_rules(const OpDef& op) {
  std::vector<InputRule> rules;
  for (const Term& term : parse(op).in) {
    InputRule rule{term.name};
    rule.fixed_dtype = dtype_of(term.suffix, &rule.dtype);
    rule.optional = term.optional;
    rule.or_that_of = term.other;
    rules.push_back(rule);
  }
  return rules;
}

std::vector<std::string> output_names(const OpDef& op) {
  std::vector<std::string> names;
  for (const Term& term : parse(op).out) names.push_back(term.name);
  return names;
}

std::vector<double> arithmetic_error(const OpDef& op, const Reference& r, size_t output) {
  const double terms = op.bound.terms ? op.bound.terms(r) : 1;
  std::vector<double> error(r.out[output].size());
  for (size_t i = 0; i < error.size(); ++i)
    error[i] = op.bound.ulp * 0x1p-24 * std::sqrt(terms) *
               std::max(std::abs(r.out[output][i]), r.magnitude[output][i]);
  return error;
}

double storing_error(DType dtype, double value) {
  switch (dtype) {
    case DType::bf16:
      return 0x1p-8 * std::abs(value);
    case DType::f16:  // has subnormals down to 2⁻²⁴
      return std::max(0x1p-11 * std::abs(value), 0x1p-25);
    default:
      return 0;
  }
}

Value Grad::in(int i) const {
  const int id = node.in[static_cast<size_t>(i)];
  return id < 0 ? Value{} : Value{&program, id};
}

Value Grad::out(int i) const { return {&program, node.out[static_cast<size_t>(i)]}; }

int64_t Reference::rows(int input) const {
  const Shape& shape = in_types[static_cast<size_t>(input)].shape;
  return elements(shape) / std::max<int64_t>(1, shape.back());
}

std::vector<Value> not_differentiable(const Grad& grad) { return std::vector<Value>(grad.node.in.size()); }

std::vector<Value> gradient_of(const Grad& grad) {
  const OpDef& op = *grad.node.op;
  const std::vector<Value> din = op.gradient ? op.gradient(grad) : not_differentiable(grad);
  if (din.size() != grad.node.in.size())
    fail(ErrorCode::kInternal, "{}: its rule gives {} gradients, expected one for each of {} inputs", op.name,
         din.size(), grad.node.in.size());
  for (size_t i = 0; i < din.size(); ++i) {
    const Value in = grad.in(static_cast<int>(i));
    if (din[i] && in && din[i].type() != in.type())
      fail(ErrorCode::kInternal, "{}: its gradient of {} is {}, expected {}", op.name, input_name(op, i),
           to_string(din[i].type()), to_string(in.type()));
  }
  return din;
}

bool has_gradient(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f64;
}

Cost elementwise_cost(const Node& node, const Program& program, double flops) {
  Cost cost;
  for (int id : node.in)
    if (id >= 0) cost.bytes += static_cast<double>(bytes_of(program.type(id)));
  for (int id : node.out) cost.bytes += static_cast<double>(bytes_of(program.type(id)));
  cost.flops = flops * static_cast<double>(elements(program.type(node.out[0])));
  return cost;
}

}  // namespace lathe
