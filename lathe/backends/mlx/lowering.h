#pragma once
#include <mlx/mlx.h>

#include <map>
#include <optional>
#include <vector>

#include "lathe/backends/mlx/ranks.h"
#include "lathe/program/backend.h"

namespace lathe::mlx {

using Arrays = std::vector<mx::array>;

/// Constants that all programs of a device share.
class Constants {
 public:
  /// [n] of bool: whether the element is one of the first `count`.
  mx::array prefix(int64_t n, int64_t count);

 private:
  std::map<std::pair<int64_t, int64_t>, mx::array> prefixes_;
};

/// What a node that is lowered sees: its operands as lazy arrays, in the shapes of the program.
struct Call {
  const Node& node;
  const Program& program;
  std::vector<std::optional<mx::array>> in;  ///< none: an optional input that is not given
  int longest;                               ///< tokens of the longest row of the batch, or somewhat more
  Constants& constants;
  Ranks* ranks;  ///< null: this process is alone

  bool has(int i) const { return in[static_cast<size_t>(i)].has_value(); }
  const mx::array& operator[](int i) const { return *in[static_cast<size_t>(i)]; }
  const Type& in_type(int i) const { return program.type(node.in[static_cast<size_t>(i)]); }
  const Type& out_type(int i) const { return program.type(node.out[static_cast<size_t>(i)]); }
  mx::Dtype in_dtype(int i) const { return in[static_cast<size_t>(i)]->dtype(); }
  /// Elements in the last axis, and the product of the others.
  int cols(int i) const { return static_cast<int>(in_type(i).shape.back()); }
  int rows(int i) const { return static_cast<int>(elements(in_type(i)) / in_type(i).shape.back()); }
  /// Input i as a matrix whose columns are its last axis.
  mx::array matrix(int i) const { return mx::reshape((*this)[i], {rows(i), cols(i)}); }
};

/// Every implementation on this device.
struct MlxImpl : Impl {
  bool on_host = false;                              ///< not on this device
  virtual Arrays lower(const Call& call) const = 0;  ///< one array per output
};

/// One entry of a family's table: an op, what computes its outputs, and which nodes that takes.
struct Entry {
  const OpDef* op;
  const char* name;
  Arrays (*lower)(const Call&);
  bool (*accepts)(const Node&, const Program&) = nullptr;
  size_t (*workspace_bytes)(const Node&, const Program&) = nullptr;
};

/// The tables, one per family.
std::vector<Entry> attention_entries();
std::vector<Entry> elementwise_entries();
std::vector<Entry> flat_entries();
std::vector<Entry> loss_entries();
std::vector<Entry> product_entries();
std::vector<Entry> row_entries();

mx::Dtype dtype_of(DType dtype);
mx::Shape shape_of(const Shape& shape);
/// A copy of host memory, of which the array alone is the owner.
mx::array array_of(std::span<const std::byte> bytes, const mx::Shape& shape, mx::Dtype dtype);

inline mx::array f32(const mx::array& x) { return mx::astype(x, mx::float32); }
/// A constant that takes part in f32 arithmetic.
inline mx::array number(double x) { return mx::array(static_cast<float>(x)); }

/// Stands for a score where there is none: below every score, and no infinity, so that a row without any has
/// no NaN.
constexpr double kNoScore = -1e30;

/// The decisions of dropout (lathe/core/philox.h): 16 bits each, u16 [.., cols], `..` being the common shape
/// of `position` and `sample`, u32 [.., 1].
mx::array dropout_decisions(int cols, const mx::array& position, const mx::array& sample, uint32_t site,
                            const mx::array& rng);
/// dropout_decisions ≥ threshold ? x / (1 − p) : 0, x of f32.
mx::array drop(const mx::array& x, const mx::array& decisions, double p);

/// Σ over all elements of x, f32, in a tree: [1].
mx::array tree_sum(const mx::array& x);

}  // namespace lathe::mlx
