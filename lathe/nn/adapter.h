#pragma once
#include <string>
#include <vector>

#include "lathe/nn/module.h"

namespace lathe::nn {

/// A low-rank adapter (LoRA) of a model: a linear layer with the name `L` becomes
/// y = x·Wᵀ + b + scale · dropout(x)·Aᵀ·Bᵀ with L.lora_A.weight [rank, in] and L.lora_B.weight [out, rank].
/// Source: Hu et al. 2021 (arXiv 2106.09685); peft 0.21, tuners/lora/layer.py.
struct AdapterOptions {
  int64_t rank = 8;
  double alpha = 8, dropout = 0;
  bool rslora = false;                       ///< scale α/√rank (Kalajdzievski 2023) rather than α/rank
  std::vector<std::string> targets;          ///< names of linear layers, whole or what follows a dot
  std::vector<std::string> modules_to_save;  ///< modules that are trained whole, as PEFT finds them

  double scale() const;
};

/// The names of all linear layers, in declared order: also those that one product computes together.
std::vector<std::string> linear_layers(const Module& module);
/// Those of them that get an A and a B.  Source: peft's check_target_module_exists.
std::vector<std::string> adapted_layers(const Module& module, const AdapterOptions& options);

/// Adds an adapter: A and B follow the layer that they are of in declared order, and nothing else is trained
/// but them and modules_to_save.  Once for a module, before it is traced.
void adapt(Module& module, const AdapterOptions& options);

/// What the adapters of a linear layer add to y = x·Wᵀ + b; y itself where it has none.  weights: the block
/// W.
Value adapted(Module& module, int weights, Value x, Value y);

}  // namespace lathe::nn
