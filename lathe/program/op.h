#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lathe/program/program.h"

namespace lathe {

/// What an op's gradient rule sees: the node, and the gradients of its outputs (no value where none flows).
struct Grad {
  Program& program;
  const Node& node;
  std::vector<Value> dout;
  Value in(int i) const;
  Value out(int i) const;
};

/// Tensors of one node for its reference: all elements as double, row-major.  `in[i]` is empty for an
/// optional input that is not given.  `magnitude[o]`, if the reference fills it, holds Σ|terms| per element
/// of output o, from which the error bound follows; otherwise |out| is used.
struct Reference {
  const Node& node;
  std::vector<Type> in_types, out_types;
  std::vector<std::vector<double>> in;
  std::vector<std::vector<double>> out;
  std::vector<std::vector<double>> magnitude;

  int64_t dim(int input, int axis) const {
    return in_types[static_cast<size_t>(input)].shape.at(static_cast<size_t>(axis));
  }
  /// Rows × columns of an input seen as a matrix whose columns are its last axis.
  int64_t cols(int input) const { return in_types[static_cast<size_t>(input)].shape.back(); }
  int64_t rows(int input) const;
};

/// A conformance case.  Float inputs are uniform in ±scale; `ints` gives the content of the i32 inputs in
/// order. Declared in f32: inputs whose dtype the signature leaves open take each of the op's dtypes in turn.
struct Case {
  std::string name;
  std::vector<Shape> in;  ///< an empty optional input is {-1}
  Attrs attrs = {};
  std::vector<std::vector<int32_t>> ints = {};
  double scale = 1;
  /// Makes the drawn inputs fit one another, e.g. a second moment ≥ 0.  Called before they are rounded to
  /// their dtypes.
  void (*adjust)(Reference&) = nullptr;
  int64_t longest_row = 0;  ///< Program::longest_row
  bool optional = false;    ///< a device may lack it: none of its implementations accepts the node
};

/// Error bound of every implementation against the reference:
/// |y − ref| ≤ ulp · 2⁻²⁴ · √terms · max(|ref|, magnitude) + storing_error(dtype, ref).  terms: how many
/// numbers are summed for an element.
struct Bound {
  double ulp = 4;
  std::function<double(const Reference&)> terms = {};  ///< 1 if empty
};

struct Cost {
  double flops = 0, bytes = 0;
};

/// Output `out` of a node occupies the memory of input `in`: the op updates in place.
struct InPlace {
  int out, in;
};

/// By tensor and element.
using Errors = std::vector<std::vector<double>>;

/// How an op relates to memory.  Views compute nothing on devices whose memory the planner lays out.
enum class Aliasing {
  kNone,
  kSlice,   ///< output 0 is input 0 from element attrs.i("offset") on
  kConcat,  ///< input i is in output 0 after inputs 0 … i−1
};

/// An op, declared once.  From it follow verifier, dump, documentation, conformance tests, benches, support
/// matrix.
struct OpDef {
  const char* name;
  /// Shapes and dtype rule: "x[..,n] gamma[n]:f32 b[n]? -> y[..,n]:x mean[..]:f32".  A dimension is `..` (any
  /// number, the same for all), a name (bound at first use), name+1, 3name, a number, or @attr (an int
  /// attribute). A suffix fixes the dtype, or names the input whose dtype it takes; of an input, `f32|x`
  /// admits both.  `?` marks an optional input.
  const char* signature;
  std::vector<DType> dtypes = {DType::f32, DType::bf16,
                               DType::f16};  ///< admitted for inputs whose dtype is open
  Attrs attrs = {};                          ///< names and defaults
  /// Replaces the signature's rule if that cannot express the shapes.  Throws kShape.
  std::function<std::vector<Type>(std::span<const Type> in, const Attrs&)> infer = {};
  /// What the inputs must also satisfy, next to the signature.  Throws kShape.
  std::function<void(std::span<const Type> in, const Attrs&)> check = {};
  /// dL/d(inputs), one per input, of its type.  No value for an input of integers, or one without a gradient:
  /// autograd fails if it needs that.  `not_differentiable`: the op has no gradient at all.
  std::function<std::vector<Value>(const Grad&)> gradient = {};
  /// This many outputs, the last ones, serve the backward pass: no gradient flows in through them.
  size_t auxiliary_outputs = 0;
  std::function<void(Reference&)> reference = {};
  std::function<std::vector<Case>()> cases = {};
  Bound bound = {};
  std::function<Cost(const Node&, const Program&)> cost = {};
  std::vector<InPlace> in_place = {};
  Aliasing aliasing = Aliasing::kNone;
  bool optional = false;     ///< a device may lack it; code that needs it asks first
  bool commutative = false;  ///< inputs 0 and 1 may change places, to the same bits
  /// A fused op: the plain ops that it replaces, in the notation of lathe/program/fusion.h.  Null: a plain
  /// op.
  const char* fuses = nullptr;
  /// An upper bound, to first order, of what errors of the inputs (empty: exact) do to the outputs, if this
  /// op follows another within a fused one.  Empty: output elements depend only on the input elements at the
  /// same place, so the reference tells.
  std::function<Errors(const Reference&, const Errors& in)> moved = {};
  const char* source = "";  ///< where the formula comes from
};

/// The gradient of an op that has none: no value for every input.
std::vector<Value> not_differentiable(const Grad& grad);
/// The gradients that the op's rule gives.  Errors: kInternal, naming the op, unless they are one per input,
/// of its type.
std::vector<Value> gradient_of(const Grad& grad);
/// Whether a value of the dtype has a gradient: it holds no integers.
bool has_gradient(DType dtype);

/// Types of the outputs for the given inputs, by `infer` or the signature.  An input that is not given has an
/// empty dtype-f32 type with shape {−1}.  Errors: kShape, also if rows have no elements.
std::vector<Type> infer_types(const OpDef& op, std::span<const Type> in, const Attrs& attrs);

/// Name of input `i` in the signature, also of one of any number.
std::string input_name(const OpDef& op, size_t i);
/// Names of the inputs in the signature, and whether each has a fixed dtype (":f32") or is optional.
struct InputRule {
  std::string name;
  bool fixed_dtype = false, optional = false;
  DType dtype = DType::f32;  ///< where fixed
  std::string or_that_of;    ///< the input whose dtype it may have instead (":f32|x"); empty: none
};
std::vector<InputRule> input_rules(const OpDef& op);
/// Names of the outputs in the signature.
std::vector<std::string> output_names(const OpDef& op);

/// The error that an output may have before it is stored: the first term of its bound.
std::vector<double> arithmetic_error(const OpDef& op, const Reference& r, size_t output);
/// The error of storing `value`: half the distance between numbers of the dtype.  0 for f32, because the ops'
/// bounds include it.
double storing_error(DType dtype, double value);

/// 2 · sizes of all tensors as bytes moved and `flops` per output element: cost of an elementwise op.
Cost elementwise_cost(const Node& node, const Program& program, double flops);

}  // namespace lathe
