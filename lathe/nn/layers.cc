#include "lathe/nn/layers.h"

#include "lathe/core/philox.h"
#include "lathe/nn/adapter.h"
#include "lathe/ops/attention.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/rotary.h"

namespace lathe::nn {
namespace {

/// −1: none
Value parameter(const Module* module, int block) {
  if (block < 0) return {};
  return module->trace().blocks[static_cast<size_t>(block)];
}

/// The attribute kv_heads of ops: 0 where every head has its own.
int64_t shared(const Heads& heads) { return heads.kv_heads == heads.heads ? 0 : heads.kv_heads; }

std::vector<Linear::Part> parts_of(const std::vector<std::string>& names, int64_t out) {
  std::vector<Linear::Part> parts;
  for (const std::string& name : names) parts.push_back({name, out});
  return parts;
}

}  // namespace

Linear::Linear(Module& module, const std::string& name, int64_t in, int64_t out, const LinearOptions& options)
    : Linear(module, std::vector{name}, in, out, options) {}

Linear::Linear(Module& module, const std::vector<std::string>& names, int64_t in, int64_t out,
               const LinearOptions& options)
    : Linear(module, parts_of(names, out), in, options) {}

Linear::Linear(Module& module, const std::vector<Part>& parts, int64_t in, const LinearOptions& options)
    : module_(&module) {
  std::vector<int> weights, biases;
  for (const auto& [name, out] : parts) {
    weights.push_back(
        module.declare({name + ".weight", {out, in}, options.init, true, true, options.stddev, true}));
    if (options.bias)
      biases.push_back(module.declare(
          {.name = name + ".bias", .shape = {out}, .init = Init::kZeros, .decay = false, .of_linear = true}));
  }
  weight_ = module.add_block(weights);
  if (options.bias) bias_ = module.add_block(biases);
}

Value Linear::operator()(Value x) const {
  const Quantization quantization = module_->trace().quantization;
  const Value w = parameter(module_, weight_), b = parameter(module_, bias_);
  const bool fp8 = quantization == Quantization::kFp8 && fits_fp8(w.type());
  const Value y = quantization == Quantization::kInt8 ? linear_int8(x, w, b)
                  : fp8                               ? linear_fp8(x, w, b)
                                                      : linear(x, w, b);
  return adapted(*module_, weight_, x, y);
}

Embedding::Embedding(Module& module, const std::string& name, int64_t rows, int64_t width, int64_t padding,
                     Init init)
    : module_(&module),
      weight_(module.add_parameter({.name = name + ".weight",
                                    .shape = {rows, width},
                                    .init = init,
                                    .padding = padding,
                                    .is_table = true})),
      padding_(padding) {}

Value Embedding::operator()(Value ids) const { return look_up(table(), ids, padding_); }
Value Embedding::table() const { return parameter(module_, weight_); }

LayerNorm::LayerNorm(Module& module, const std::string& name, int64_t width, double eps, bool bias)
    : module_(&module),
      weight_(module.add_parameter({name + ".weight", {width}, Init::kOnes, false})),
      bias_(bias ? module.add_parameter({name + ".bias", {width}, Init::kZeros, false}) : -1),
      eps_(eps) {}

Value LayerNorm::operator()(Value x) const {
  return layer_norm(x, parameter(module_, weight_), parameter(module_, bias_), eps_);
}

RmsNorm::RmsNorm(Module& module, const std::string& name, int64_t width, double eps, bool plus_one)
    : module_(&module),
      weight_(
          module.add_parameter({name + ".weight", {width}, plus_one ? Init::kZeros : Init::kOnes, false})),
      eps_(eps),
      plus_one_(plus_one) {}

Value RmsNorm::operator()(Value x) const { return rms_norm(x, parameter(module_, weight_), eps_, plus_one_); }

Dropout::Dropout(Module& module, const std::string& site, double p)
    : module_(&module), site_(dropout_site(site)), p_(p) {}

Value Dropout::operator()(Value x) const {
  if (!acts()) return x;
  Inputs& inputs = *module_->trace().inputs;
  return apply(x, inputs.token("sample_ids"), inputs.token("position_ids"));
}

Value Dropout::rows(Value x) const {
  return acts() ? apply(x, module_->trace().inputs->row("row_ids"), {}) : x;
}

Value Dropout::scored(Value x) const {
  if (!acts()) return x;
  Inputs& inputs = *module_->trace().inputs;
  return apply(x, inputs.scored("scored_sample_ids"), inputs.scored("scored_position_ids"));
}

bool Dropout::acts() const { return module_->trace().training && p_ > 0; }

Value Dropout::apply(Value x, Value sample_ids, Value positions) const {
  const Value rng = module_->trace().inputs->rng();
  return emit(op::dropout, {x, sample_ids, positions, rng}, {{"p", p_}, {"site", site_}})[0];
}

HeadNorms::HeadNorms(Module& module, const std::string& name, const Heads& heads, double eps, bool plus_one)
    : module_(&module), heads_(heads), eps_(eps), plus_one_(plus_one) {
  const auto add = [&](const char* part) {
    return module.add_parameter({name + part, {heads.width}, plus_one ? Init::kZeros : Init::kOnes, false});
  };
  query_ = add(".q_norm.weight");
  key_ = add(".k_norm.weight");
}

Value HeadNorms::operator()(Value qkv) const {
  return head_norm(qkv, parameter(module_, query_), parameter(module_, key_), heads_.heads, shared(heads_),
                   eps_, plus_one_);
}

Value Rotary::operator()(Value qkv) const {
  return rotary(qkv, module_->trace().inputs->token("position_ids"), heads_.heads, shared(heads_),
                frequencies_, factor_);
}

Attention::Attention(Module& module, const std::string& site, const Heads& heads,
                     const AttentionOptions& options)
    : module_(&module), heads_(heads), site_(dropout_site(site)), options_(options) {}

Value Attention::operator()(Value qkv) const {
  const Trace& trace = module_->trace();
  Inputs& inputs = *trace.inputs;
  return emit(op::attention, {qkv, inputs.bounds(), inputs.row("row_ids"), inputs.rng()},
              {{"heads", heads_.heads},
               {"kv_heads", shared(heads_)},
               {"scale", options_.scale},
               {"p", trace.training ? options_.p : 0.0},
               {"site", site_},
               {"window", options_.window},
               {"causal", options_.causal},
               {"longest", options_.longest}})[0];
}

}  // namespace lathe::nn
