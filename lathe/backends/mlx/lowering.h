#pragma once
#include <fmt/format.h>
#include <mlx/mlx.h>

#include <map>
#include <optional>
#include <vector>

#include "lathe/backends/mlx/ranks.h"
#include "lathe/program/memory_plan.h"

namespace lathe::mlx {

using Arrays = std::vector<mx::array>;

/// Constants that all programs of a device share.
class Constants {
 public:
  /// [n] of bool: whether the element is one of the first `count`.
  mx::array prefix(int64_t n, int64_t count);
  /// 0 … n − 1.
  mx::array range(int n, mx::Dtype dtype = mx::int32);

 private:
  std::map<std::pair<int64_t, int64_t>, mx::array> prefixes_;
  std::map<std::pair<int, int>, mx::array> ranges_;
};

/// Arrays that several nodes of one graph need, made by the first that asks.
class Shared {
 public:
  template <typename Make>
  mx::array get(const std::string& key, Make make) {
    const auto found = arrays_.find(key);
    return found != arrays_.end() ? found->second : arrays_.emplace(key, make()).first->second;
  }
  void put(const std::string& key, const mx::array& array) { arrays_.emplace(key, array); }

 private:
  std::map<std::string, mx::array> arrays_;
};

/// What a node that is lowered sees: its operands as lazy arrays, in the shapes of the program.
struct Call {
  const Node& node;
  const Program& program;
  std::vector<std::optional<mx::array>> in;  ///< none: an optional input that is not given
  int longest;                               ///< tokens of the longest row of the batch, or somewhat more
  Constants& constants;
  Shared& shared;
  Ranks* ranks;  ///< null: this process only

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
  bool on_host = false;  ///< not on this device
  /// What a node leaves in memory in addition to its outputs, for the estimate; null: nothing.
  Held (*holds)(const Node&, const Program&) = nullptr;
  virtual Arrays lower(const Call& call) const = 0;  ///< one array per output
};

/// One entry of a family's table: an op, what computes its outputs, and which nodes that takes.
struct Entry {
  const OpDef* op;
  const char* name;
  Arrays (*lower)(const Call&);
  bool (*accepts)(const Node&, const Program&) = nullptr;
  size_t (*workspace_bytes)(const Node&, const Program&) = nullptr;
  Held (*holds)(const Node&, const Program&) = nullptr;
};

/// The tables, one per family.
std::vector<Entry> attention_entries();
std::vector<Entry> elementwise_entries();
std::vector<Entry> flat_entries();
std::vector<Entry> linear_cross_entropy_entries();
std::vector<Entry> loss_entries();
std::vector<Entry> product_entries();
std::vector<Entry> pooling_entries();
std::vector<Entry> similarity_entries();
std::vector<Entry> row_entries();

mx::Dtype dtype_of(DType dtype);
mx::Shape shape_of(const Shape& shape);
/// A copy of host memory; only the array owns it.
mx::array array_of(std::span<const std::byte> bytes, const mx::Shape& shape, mx::Dtype dtype);

/// How functions are compiled here.  On a CPU, MLX compiles every fused kernel with the system's C++
/// compiler, a second each, and on NVIDIA's GPUs with NVRTC, many seconds each, more than a test gains: there
/// only with LATHE_MLX_FUSE.
mx::CompileMode compile_mode();

/// What an op works on in addition to its results, in bytes per element of input kIn: with ops fused and not.
template <int kIn, int kFused, int kUnfused = kFused>
size_t working_bytes(const Node& node, const Program& program) {
  const bool fused = compile_mode() == mx::CompileMode::enabled;
  return static_cast<size_t>(elements(program.type(node.in[kIn]))) * (fused ? kFused : kUnfused);
}

inline mx::array f32(const mx::array& x) { return mx::astype(x, mx::float32); }
/// A constant that takes part in f32 arithmetic.
inline mx::array number(double x) { return mx::array(static_cast<float>(x)); }

/// To how many tokens rows of attention are padded where the longest has so many: 32, 64, 96, 128, 192, 256,
/// 384, 512, and so on; from 64 tokens on at most half as much again.
int64_t length_bucket(int64_t longest);

/// Used for a score where there is none: below every score but not infinite, so that a row without any score
/// has no NaN.
constexpr double kNoScore = -1e30;

/// Σ over each row of x [rows, n], f32, in a tree: [rows, 1].
mx::array row_sums(const mx::array& x);
/// Σ over all elements of x, f32, in a tree: [1].
mx::array tree_sum(const mx::array& x);

}  // namespace lathe::mlx
