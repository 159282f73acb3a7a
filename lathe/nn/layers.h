#pragma once
#include <string>
#include <vector>

#include "lathe/nn/module.h"

namespace lathe::nn {

/// y = x·Wᵀ + b with parameters `name`.weight [out, in] and `name`.bias [out].
class Linear {
 public:
  Linear(Module& module, const std::string& name, int64_t in, int64_t out);
  /// Several layers of the same input as one product: x [.., in] → [.., names · out], their outputs side by
  /// side.
  Linear(Module& module, const std::vector<std::string>& names, int64_t in, int64_t out);
  /// x [.., in] → [.., out]
  Value operator()(Value x) const;

 private:
  Module* module_;
  int weight_, bias_;
};

/// Rows of the table `name`.weight [rows, width].
class Embedding {
 public:
  Embedding(Module& module, const std::string& name, int64_t rows, int64_t width);
  /// ids [n] → [n, width] f32
  Value operator()(Value ids) const;
  /// The table itself, for layers tied to it.
  Value table() const;

 private:
  Module* module_;
  int weight_;
};

/// Layer normalisation with parameters `name`.weight and `name`.bias [width].
class LayerNorm {
 public:
  LayerNorm(Module& module, const std::string& name, int64_t width, double eps);
  Value operator()(Value x) const;

 private:
  Module* module_;
  int weight_, bias_;
  double eps_;
};

/// Dropout at a named site; the identity outside of training and for p = 0.
class Dropout {
 public:
  Dropout(Module& module, const std::string& site, double p);
  /// x [N, c]: a row per token.
  Value operator()(Value x) const;
  /// x [B, c]: a row per sample.
  Value rows(Value x) const;

 private:
  Value apply(Value x, Value sample_ids, Value positions) const;
  Module* module_;
  int64_t site_;
  double p_;
};

/// Attention of each row's tokens over one another, with dropout of the probabilities at a named site.
class Attention {
 public:
  Attention(Module& module, const std::string& site, int64_t heads, double p);
  /// qkv [N, 3 · heads · width] → [N, heads · width]
  Value operator()(Value qkv) const;

 private:
  Module* module_;
  int64_t heads_, site_;
  double p_;
};

}  // namespace lathe::nn
