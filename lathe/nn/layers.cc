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

}  // namespace

Linear::Linear(Module& module, const std::string& name, int64_t in, int64_t out, const LinearOptions& options)
    : Linear(module, std::vector{name}, in, out, options) {}

Linear::Linear(Module& module, const std::vector<std::string>& names, int64_t in, int64_t out,
               const LinearOptions& options)
    : module_(&module) {
  std::vector<int> weights, biases;
  for (const std::string& name : names) {
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

Value Rotary::operator()(Value qkv) const {
  const int64_t width = qkv.type().shape[1] / (3 * heads_);
  return rotary(qkv, module_->trace().inputs->token("position_ids"), heads_, 0,
                rotary_frequencies(width, theta_));
}

Attention::Attention(Module& module, const std::string& site, int64_t heads, double p, int64_t window,
                     int64_t longest)
    : module_(&module), heads_(heads), site_(dropout_site(site)), p_(p), window_(window), longest_(longest) {}

Value Attention::operator()(Value qkv) const {
  const Trace& trace = module_->trace();
  Inputs& inputs = *trace.inputs;
  return emit(op::attention, {qkv, inputs.bounds(), inputs.row("row_ids"), inputs.rng()},
              {{"heads", heads_},
               {"p", trace.training ? p_ : 0.0},
               {"site", site_},
               {"window", window_},
               {"longest", longest_}})[0];
}

}  // namespace lathe::nn
