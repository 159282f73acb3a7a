#include "lathe/nn/module.h"

#include <algorithm>
#include <optional>

#include "lathe/core/error.h"

namespace lathe::nn {

void clear_padding(const Parameter& p, std::vector<float>& values) {
  if (p.padding < 0 || p.padding >= p.shape[0]) return;
  std::fill_n(values.begin() + static_cast<long>(p.padding * p.shape[1]), p.shape[1], 0.0f);
}

namespace {

/// One dtype for all tables, because kernels read several of them together.
DType dtype_of_tables(const Module& module, const StorageRule& rule) {
  std::optional<DType> common;
  for (const Parameter& p : module.parameters()) {
    if (!p.is_table) continue;
    const bool as_stored = !p.trainable && (!p.is_tied || p.stored == rule.frozen_products);
    const DType dtype = as_stored ? p.stored : DType::f32;
    if (common.value_or(dtype) != dtype) return DType::f32;
    common = dtype;
  }
  return common.value_or(DType::f32);
}

}  // namespace

Layout layout_of(const Module& module, const StorageRule& rule) {
  const DType tables = dtype_of_tables(module, rule);
  Layout layout;
  layout.blocks.resize(module.blocks().size());
  layout.parameters.resize(module.parameters().size());
  const auto place = [&](size_t block, Layout::Place at) {
    layout.blocks[block] = at;
    for (const int index : module.blocks()[block].parameters) {
      const auto i = static_cast<size_t>(index);
      layout.parameters[i] = at;
      at.offset += elements(module.parameters()[i].shape);
    }
  };
  for (const bool decay : {true, false}) {
    for (size_t b = 0; b < module.blocks().size(); ++b) {
      const Parameter& first = module.first_of(module.blocks()[b]);
      if (first.decay != decay) continue;
      if (!first.trainable) {
        const bool multiplies = first.of_linear && first.shape.size() == 2;
        place(b, {"frozen." + first.name, multiplies       ? rule.frozen_products
                                          : first.is_table ? tables
                                                           : DType::f32});
        continue;
      }
      place(b, {kTrainedState, DType::f32, layout.trainable});
      layout.trainable += elements(module.blocks()[b].shape);
    }
    if (decay) layout.decayed = layout.trainable;
  }
  for (size_t i = 0; i < layout.parameters.size(); ++i)
    if (layout.parameters[i].state.empty())
      fail(ErrorCode::kInternal, "parameter {} was declared and is in no block", module.parameters()[i].name);
  return layout;
}

int Module::find(const std::string& name) const {
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].name == name) return static_cast<int>(i);
  return -1;
}

void Module::set_trainable(const std::string& prefix, bool trainable) {
  for (Parameter& p : parameters_)
    if (p.name.starts_with(prefix)) p.trainable = trainable;
}

void Module::set_stored(int index, DType dtype, bool is_tied) {
  Parameter& p = parameters_.at(static_cast<size_t>(index));
  p.stored = dtype, p.is_tied = is_tied;
}

int Module::declare(Parameter parameter) {
  if (find(parameter.name) >= 0) fail(ErrorCode::kInternal, "parameter {} is declared twice", parameter.name);
  parameters_.push_back(std::move(parameter));
  return static_cast<int>(parameters_.size()) - 1;
}

int Module::add_parameter(Parameter parameter) { return add_block({declare(std::move(parameter))}); }

int Module::add_block(const std::vector<int>& parameters) {
  if (parameters.empty()) fail(ErrorCode::kInternal, "a layer of no parameters was declared");
  const auto at = [&](int index) -> const Parameter& { return parameters_[static_cast<size_t>(index)]; };
  Block block{parameters, at(parameters.front()).shape};
  for (size_t i = 1; i < parameters.size(); ++i) {
    const Parameter &before = at(parameters[i - 1]), &p = at(parameters[i]);
    const bool fits = p.decay == before.decay && p.shape.size() == before.shape.size() &&
                      std::equal(p.shape.begin() + 1, p.shape.end(), before.shape.begin() + 1);
    if (!fits) fail(ErrorCode::kInternal, "{} and {} cannot be one block", before.name, p.name);
    block.shape[0] += p.shape[0];
  }
  blocks_.push_back(std::move(block));
  return static_cast<int>(blocks_.size()) - 1;
}

const Parameter& Module::first_of(const Block& block) const {
  const Parameter& first = parameters_[static_cast<size_t>(block.parameters.front())];
  for (int index : block.parameters) {
    const Parameter& p = parameters_[static_cast<size_t>(index)];
    if (p.trainable != first.trainable)
      fail(ErrorCode::kUsage, "{} and {} are computed together: train both or freeze both", first.name,
           p.name);
  }
  return first;
}

void Module::add_low_rank(int weights, LowRank low_rank) {
  const Parameter& weight = parameters_[static_cast<size_t>(find(low_rank.layer + ".weight"))];
  const int64_t out = weight.shape[0], in = weight.shape[1], rank = low_rank.rank;
  const std::vector<Parameter> own = {{.name = low_rank.layer + ".lora_A.weight",
                                       .shape = {rank, in},
                                       .init = Init::kLowRank,
                                       .of_linear = true,
                                       .of_adapter = true,
                                       .dropped = rank * in + out * rank},
                                      {.name = low_rank.layer + ".lora_B.weight",
                                       .shape = {out, rank},
                                       .of_linear = true,
                                       .of_adapter = true}};
  const int bias = find(low_rank.layer + ".bias");
  const int at = std::max(bias, find(weight.name)) + 1;
  for (Block& block : blocks_)
    for (int& index : block.parameters)
      if (index >= at) index += static_cast<int>(own.size());
  parameters_.insert(parameters_.begin() + at, own.begin(), own.end());
  low_rank.a = add_block({at});
  low_rank.b = add_block({at + 1});
  low_ranks_[weights].push_back(std::move(low_rank));
}

const std::vector<LowRank>& Module::low_ranks(int weights) const {
  static const std::vector<LowRank> none;
  const auto it = low_ranks_.find(weights);
  return it == low_ranks_.end() ? none : it->second;
}

Value Inputs::find(const std::string& name) const {
  const auto it = made_.find(name);
  return it == made_.end() ? Value{} : it->second;
}

Value Inputs::make(const std::string& name, Type type) {
  const Value known = find(name);
  if (!known) return made_[name] = program_.input(name, std::move(type));
  if (known.type() != type)
    fail(ErrorCode::kInternal, "the input {} is {} and {}", name, to_string(known.type()), to_string(type));
  return known;
}

const Trace& Module::trace() const {
  if (trace_ == nullptr) fail(ErrorCode::kInternal, "a layer was called outside of a trace");
  return *trace_;
}

TraceScope::TraceScope(Module& module, const Trace& trace) : turn_(module.tracing_), module_(module) {
  if (module_.trace_ != nullptr) fail(ErrorCode::kUsage, "a module is traced while it is being traced");
  module_.trace_ = &trace;
}

}  // namespace lathe::nn
