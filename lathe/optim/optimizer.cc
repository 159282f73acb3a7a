#include "lathe/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "lathe/core/error.h"
#include "lathe/ops/all_gather.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/optimizers/adafactor.h"
#include "lathe/ops/optimizers/optimizer.h"
#include "lathe/ops/optimizers/sgd.h"
#include "lathe/optim/shards.h"

namespace lathe {
namespace {

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

/// Rows and columns of every parameter, as op::adafactor takes them.
Shape matrices(const FlatParameters& parameters) {
  Shape tensors;
  for (const Shape& shape : parameters.shapes) {
    if (shape.empty() || shape.size() > 2)
      fail(ErrorCode::kUnsupported,
           "adafactor: found a parameter {}, expected vectors and matrices; --optim "
           "adamw_torch takes any",
           to_string(shape));
    tensors.push_back(shape.size() == 2 ? shape[0] : 0);
    tensors.push_back(shape.back());
  }
  return tensors;
}

}  // namespace

std::string name_of(const OptimizerOptions& options) {
  constexpr const char* kNames[] = {"adamw", "sgd", "adafactor"};  // in the variant's order
  return kNames[options.index()];
}

std::vector<OptimizerState> optimizer_states(const OptimizerOptions& options,
                                             const FlatParameters& parameters) {
  int64_t count = 0;
  for (const Shape& shape : parameters.shapes) count += elements(shape);
  using States = std::vector<OptimizerState>;
  return std::visit(Overloaded{[&](const AdamWOptions&) -> States {
                                 return {{"exp_avg", count}, {"exp_avg_sq", count}};
                               },
                               [&](const SgdOptions& o) -> States {
                                 return {{"momentum_buffer", o.momentum != 0 ? count : 1}};
                               },
                               [&](const AdafactorOptions&) -> States {
                                 int64_t kept = 0;
                                 for (const int64_t size : matrices(parameters)) kept += size;
                                 return {{"exp_avg_sq_factors", kept}};
                               }},
                    options);
}

StepFactors step_factors(const OptimizerOptions& options, int64_t t) {
  const double step = static_cast<double>(t);
  return std::visit(
      Overloaded{[&](const AdamWOptions& o) -> StepFactors {
                   return {1 - std::pow(o.beta1, step), 1 - std::pow(o.beta2, step)};
                 },
                 // the first gradient is the momentum buffer
                 [&](const SgdOptions& o) -> StepFactors { return {t == 1 ? 1 : 1 - o.dampening}; },
                 [&](const AdafactorOptions& o) -> StepFactors { return {std::pow(step, o.decay_rate)}; }},
      options);
}

namespace {

/// What the optimizer's op gives: the parameters, then the states.
std::vector<Value> emit_update(const OptimizerOptions& options, const FlatParameters& parameters,
                               const OptimizerValues& values, Value norm, Value loss, Value hyper) {
  Program& program = *values.parameters.program;
  const FlatGradients& g = values.gradients;
  std::vector<Value> in{values.parameters, g.exact};
  in.insert(in.end(), values.states.begin(), values.states.end());
  in.insert(in.end(), {norm, loss ? loss : norm, hyper});
  return std::visit(Overloaded{[&](const AdamWOptions& o) {
                                 in.push_back(g.rounded);
                                 return program.emit(op::adamw, in,
                                                     {{"beta1", o.beta1},
                                                      {"beta2", o.beta2},
                                                      {"eps", o.eps},
                                                      {"weight_decay", o.weight_decay},
                                                      {"decayed", parameters.decayed},
                                                      {"first", g.first}});
                               },
                               [&](const SgdOptions& o) {
                                 return program.emit(op::sgd, in,
                                                     {{"momentum", o.momentum},
                                                      {"nesterov", o.nesterov},
                                                      {"weight_decay", o.weight_decay},
                                                      {"decayed", parameters.decayed}});
                               },
                               [&](const AdafactorOptions& o) {
                                 return program.emit(op::adafactor, in,
                                                     {{"tensors", matrices(parameters)},
                                                      {"clip_threshold", o.clip_threshold},
                                                      {"weight_decay", o.weight_decay},
                                                      {"decayed", parameters.decayed}});
                               }},
                    options);
}

/// Neighbouring parameters that all are of the head, or all are not.
struct Group {
  FlatParameters parameters;
  bool of_head = false;
  int64_t begin = 0, count = 0;  // elements
};

std::vector<Group> groups_of(const FlatParameters& all) {
  std::vector<Group> groups;
  int64_t at = 0;
  for (size_t i = 0; i < all.shapes.size(); ++i) {
    if (groups.empty() || groups.back().of_head != all.of_head[i])
      groups.push_back({.of_head = all.of_head[i], .begin = at});
    Group& group = groups.back();
    group.parameters.shapes.push_back(all.shapes[i]);
    group.count += elements(all.shapes[i]);
    group.parameters.decayed = std::clamp<int64_t>(all.decayed - group.begin, 0, group.count);
    at += elements(all.shapes[i]);
  }
  return groups;
}

/// An update for each group, of its part of everything.
void update_groups(const OptimizerOptions& options, const FlatParameters& all, const OptimizerValues& values,
                   Value norm, Value loss, const HyperValues& hyper) {
  std::vector<Value> states = values.states;
  std::vector<int64_t> at(states.size());
  for (const Group& group : groups_of(all)) {
    const std::vector<OptimizerState> sizes = optimizer_states(options, group.parameters);
    // A state that holds nothing of the parameters goes from one update to the next.
    const auto is_cut = [&](size_t i) { return elements(states[i].type()) > 1 || sizes[i].size > 1; };
    OptimizerValues part{slice(values.parameters, group.begin, {group.count}),
                         part_of(values.gradients, group.begin, group.begin + group.count),
                         {}};
    for (size_t i = 0; i < states.size(); ++i)
      part.states.push_back(is_cut(i) ? slice(states[i], at[i], {sizes[i].size}) : states[i]);
    const std::vector<Value> updated =
        emit_update(options, group.parameters, part, norm, loss, group.of_head ? hyper.head : hyper.all);
    for (size_t i = 0; i < states.size(); ++i) {
      if (is_cut(i))
        at[i] += sizes[i].size;
      else
        states[i] = updated[i + 1];
    }
  }
}

}  // namespace

Value append_update(const OptimizerOptions& options, const FlatParameters& parameters,
                    const OptimizerValues& values, Value loss, const HyperValues& hyper,
                    const Shards& shards) {
  Program& program = *values.parameters.program;
  if (values.gradients.rounded && !std::holds_alternative<AdamWOptions>(options))
    fail(ErrorCode::kInternal, "{}: rounded gradients are given, which only adamw takes", name_of(options));
  if (!shards.empty() && std::holds_alternative<AdafactorOptions>(options))
    fail(ErrorCode::kInternal, "adafactor works on whole tensors, not on shards");
  if (!shards.empty() && hyper.head)
    fail(ErrorCode::kInternal, "a head with its own learning rate is updated whole, not in shards");
  const Value norm =
      program.emit(op::grad_norm, {values.gradients.exact, hyper.all, values.gradients.rounded})[0];
  if (hyper.head) {
    update_groups(options, parameters, values, norm, loss, hyper);
    return norm;
  }
  const Value own =
      shards.empty() ? values.parameters : slice(values.parameters, shards.begin(), {shards.count()});
  const std::vector<Value> updated =
      emit_update(options, own_part(parameters, shards),
                  {own, own_part(values.gradients, shards), values.states}, norm, loss, hyper.all);
  if (!shards.empty())
    program.emit(op::all_gather, {values.parameters, updated[0]},
                 {{"counts", Shape(shards.counts)}, {"rank", int64_t{shards.rank}}});
  return norm;
}

}  // namespace lathe
