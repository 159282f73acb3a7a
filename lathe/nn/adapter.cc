#include "lathe/nn/adapter.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "lathe/core/error.h"
#include "lathe/nn/layers.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/optimizers/flat.h"

namespace lathe::nn {
namespace {

constexpr std::string_view kWeight = ".weight";

bool is_matrix_of_linear(const Parameter& p) { return p.of_linear && p.shape.size() == 2 && !p.of_adapter; }

std::string layer_of(const Parameter& weight) {
  return weight.name.substr(0, weight.name.size() - kWeight.size());
}

/// Whether a module on the way to the parameter is named so.  As in PEFT a name also stands for all modules
/// that end with it: "classifier" for DistilBERT's pre_classifier.
bool is_saved(const std::string& parameter, const std::vector<std::string>& modules) {
  for (size_t dot = parameter.find('.'); dot != std::string::npos; dot = parameter.find('.', dot + 1))
    for (const std::string& name : modules)
      if (std::string_view(parameter).substr(0, dot).ends_with(name)) return true;
  return false;
}

/// What is trained whole has no adapter: PEFT would have both for DistilBERT's pre_classifier.
bool is_target(const std::string& layer, const AdapterOptions& options) {
  return !is_saved(layer + ".weight", options.modules_to_save) &&
         std::any_of(options.targets.begin(), options.targets.end(),
                     [&](const auto& name) { return layer == name || layer.ends_with("." + name); });
}

/// B [out, rank] among zeros where the rows of the other layers of the product are:
/// [before + out + after, rank].
Value among_zeros(Value b, const LowRank& own) {
  const Value scaled = scale(b, own.scale);
  if (own.before + own.after == 0) return scaled;
  const Shape& shape = b.type().shape;
  const auto copies = [&](int64_t rows) { return (rows + shape[0] - 1) / shape[0]; };
  std::vector<Value> rows;
  for (int64_t i = 0; i < copies(own.before); ++i) rows.push_back(scale(b, 0));
  rows.push_back(scaled);
  for (int64_t i = 0; i < copies(own.after); ++i) rows.push_back(scale(b, 0));
  const int64_t unused = copies(own.before) * shape[0] - own.before;
  return slice(b.program->emit(op::concat, rows)[0], unused * shape[1],
               {own.before + shape[0] + own.after, shape[1]});
}

/// With the masks of what the rows of x stand for: all tokens, or what a head reads, which are tokens that
/// are scored or first tokens.  Where all tokens are scored, either masks will do.
Value dropped(const Dropout& dropout, Value x, const Inputs& inputs) {
  if (x.type().shape[0] == inputs.tokens()) return dropout(x);
  return inputs.has_scored() ? dropout.scored(x) : dropout.rows(x);
}

}  // namespace

double AdapterOptions::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(r) : r);
}

std::vector<std::string> linear_layers(const Module& module) {
  std::vector<std::string> names;
  for (const Parameter& p : module.parameters())
    if (is_matrix_of_linear(p)) names.push_back(layer_of(p));
  return names;
}

std::vector<std::string> adapted_layers(const Module& module, const AdapterOptions& options) {
  std::vector<std::string> names = linear_layers(module);
  std::erase_if(names, [&](const std::string& layer) { return !is_target(layer, options); });
  return names;
}

void adapt(Module& module, const AdapterOptions& options) {
  module.set_trainable("", false);
  for (size_t i = 0, end = module.blocks().size(); i < end; ++i) {
    std::vector<std::pair<std::string, int64_t>> layers;  // indices move where parameters are inserted
    int64_t after = 0;
    for (const int index : module.blocks()[i].parameters) {
      const Parameter& p = module.parameters()[static_cast<size_t>(index)];
      if (!is_matrix_of_linear(p)) continue;
      layers.emplace_back(layer_of(p), p.shape[0]);
      after += p.shape[0];
    }
    int64_t before = 0;
    for (const auto& [layer, outputs] : layers) {
      after -= outputs;
      if (is_target(layer, options))
        module.add_low_rank(static_cast<int>(i), {.layer = layer,
                                                  .rank = options.rank,
                                                  .before = before,
                                                  .after = after,
                                                  .scale = options.scale(),
                                                  .dropout = options.dropout});
      before += outputs;
    }
  }
  for (const Parameter& p : std::vector(module.parameters()))
    if (is_saved(p.name, options.modules_to_save)) module.set_trainable(p.name, true);
}

Value adapted(Module& module, int weights, Value x, Value y) {
  const Trace& trace = module.trace();
  for (const LowRank& own : module.low_ranks(weights)) {
    const Dropout dropout(module, own.layer + ".lora_dropout", own.dropout);
    const Value h = linear(dropped(dropout, x, *trace.inputs), trace.blocks[size_t(own.a)], {});
    y = add(y, linear(h, among_zeros(trace.blocks[size_t(own.b)], own), {}));
  }
  return y;
}

}  // namespace lathe::nn
