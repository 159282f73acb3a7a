#pragma once
#include <string>
#include <vector>

#include "lathe/nn/module.h"

namespace lathe::nn {

/// How a linear layer starts, and whether it has a bias.
struct LinearOptions {
  bool bias = true;
  Init init = Init::kNormal;
  double stddev = 0;  ///< as in Parameter
};

/// y = x·Wᵀ + b with parameters `name`.weight [out, in] and `name`.bias [out].
class Linear {
 public:
  Linear(Module& module, const std::string& name, int64_t in, int64_t out, const LinearOptions& options = {});
  /// Several layers of the same input as one product: x [.., in] → [.., names · out], their outputs side by
  /// side.
  Linear(Module& module, const std::vector<std::string>& names, int64_t in, int64_t out,
         const LinearOptions& options = {});
  /// x [.., in] → [.., out]
  Value operator()(Value x) const;

 private:
  Module* module_;
  int weight_, bias_ = -1;  // −1: none
};

/// Rows of the table `name`.weight [rows, width].  Row `padding` gets no gradient, −1: every row gets one.
/// Source: torch.nn.Embedding's padding_idx.
class Embedding {
 public:
  Embedding(Module& module, const std::string& name, int64_t rows, int64_t width, int64_t padding = -1,
            Init init = Init::kNormal);
  /// ids [n] → [n, width] f32
  Value operator()(Value ids) const;
  /// The table itself, for layers tied to it.
  Value table() const;

 private:
  Module* module_;
  int weight_;
  int64_t padding_;
};

/// Layer normalisation with parameters `name`.weight and, with `bias`, `name`.bias [width].
class LayerNorm {
 public:
  LayerNorm(Module& module, const std::string& name, int64_t width, double eps, bool bias = true);
  Value operator()(Value x) const;

 private:
  Module* module_;
  int weight_, bias_;  // −1: none
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
  /// x [M, c]: a row per token that is scored, with the mask that it has among all tokens.
  Value scored(Value x) const;

 private:
  bool acts() const;
  Value apply(Value x, Value sample_ids, Value positions) const;
  Module* module_;
  int64_t site_;
  double p_;
};

/// Turns queries and keys by the positions of their tokens.
class Rotary {
 public:
  Rotary(Module& module, int64_t heads, double theta) : module_(&module), heads_(heads), theta_(theta) {}
  /// qkv [N, 3 · heads · width] → the same shape; width is even
  Value operator()(Value qkv) const;

 private:
  Module* module_;
  int64_t heads_;
  double theta_;
};

/// Attention of each row's tokens over each other, with dropout of the probabilities at a named site.
class Attention {
 public:
  /// window: a token sees those at most this many tokens away; 0: all.  longest: tokens of the longest row;
  /// 0: not known.
  Attention(Module& module, const std::string& site, int64_t heads, double p, int64_t window = 0,
            int64_t longest = 0);
  /// qkv [N, 3 · heads · width] → [N, heads · width]
  Value operator()(Value qkv) const;

 private:
  Module* module_;
  int64_t heads_, site_;
  double p_;
  int64_t window_, longest_;
};

}  // namespace lathe::nn
