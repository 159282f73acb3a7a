#pragma once
#include <string>
#include <utility>
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
  /// The same of layers that differ in their outputs.
  struct Part {
    std::string name;
    int64_t out;
  };
  Linear(Module& module, const std::vector<Part>& parts, int64_t in, const LinearOptions& options = {});
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

/// Each row over its root mean square, times `name`.weight [width], or times 1 + it (plus_one).
class RmsNorm {
 public:
  RmsNorm(Module& module, const std::string& name, int64_t width, double eps, bool plus_one = false);
  Value operator()(Value x) const;

 private:
  Module* module_;
  int weight_;
  double eps_;
  bool plus_one_;
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

/// How queries, keys and values lie side by side: qkv [N, (heads + 2 · kv_heads) · width].
struct Heads {
  int64_t heads = 1, kv_heads = 1;  ///< the latter divide the former
  int64_t width = 1;                ///< columns of each
};

/// Queries and keys of each head over their root mean square, times `name`.q_norm.weight and
/// `name`.k_norm.weight [width], or times 1 + these (plus_one).
class HeadNorms {
 public:
  HeadNorms(Module& module, const std::string& name, const Heads& heads, double eps, bool plus_one = false);
  /// qkv → the same shape
  Value operator()(Value qkv) const;

 private:
  Module* module_;
  Heads heads_;
  int query_, key_;
  double eps_;
  bool plus_one_;
};

/// Turns queries and keys by the positions of their tokens.
class Rotary {
 public:
  /// frequencies: [width / 2] radians per position; factor: what queries and keys are multiplied by.
  Rotary(Module& module, const Heads& heads, std::vector<double> frequencies, double factor = 1)
      : module_(&module), heads_(heads), frequencies_(std::move(frequencies)), factor_(factor) {}
  /// qkv → the same shape
  Value operator()(Value qkv) const;

 private:
  Module* module_;
  Heads heads_;
  std::vector<double> frequencies_;
  double factor_;
};

struct AttentionOptions {
  double p = 0;         ///< dropout of the probabilities
  bool causal = false;  ///< a token sees none after it
  int64_t window = 0;   ///< it sees those at most this many tokens away; 0: all
  int64_t longest = 0;  ///< tokens of the longest row; 0: not known
  double scale = 0;     ///< what scores are multiplied by; 0: 1/√width
};

/// Attention of each row's tokens over each other, with dropout of the probabilities at a named site.
class Attention {
 public:
  Attention(Module& module, const std::string& site, const Heads& heads, const AttentionOptions& options);
  /// qkv → [N, heads · width]
  Value operator()(Value qkv) const;

 private:
  Module* module_;
  Heads heads_;
  int64_t site_;
  AttentionOptions options_;
};

}  // namespace lathe::nn
