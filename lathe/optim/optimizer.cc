#include "lathe/optim/optimizer.h"

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

Value append_update(const OptimizerOptions& options, const FlatParameters& all_parameters,
                    const OptimizerValues& values, Value loss, Value hyper, const Shards& shards) {
  Program& program = *values.parameters.program;
  if (values.gradients.rounded && !std::holds_alternative<AdamWOptions>(options))
    fail(ErrorCode::kInternal, "{}: rounded gradients are given, which only adamw takes", name_of(options));
  if (!shards.empty() && std::holds_alternative<AdafactorOptions>(options))
    fail(ErrorCode::kInternal, "adafactor works on whole tensors, not on shards");
  const Value norm =
      program.emit(op::grad_norm, {values.gradients.exact, hyper, values.gradients.rounded})[0];
  const FlatGradients g = own_part(values.gradients, shards);
  const FlatParameters parameters = own_part(all_parameters, shards);
  const Value own =
      shards.empty() ? values.parameters : slice(values.parameters, shards.begin(), {shards.count()});
  std::vector<Value> in{own, g.exact};
  in.insert(in.end(), values.states.begin(), values.states.end());
  in.insert(in.end(), {norm, loss ? loss : norm, hyper});
  const std::vector<Value> updated =
      std::visit(Overloaded{[&](const AdamWOptions& o) {
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
  if (!shards.empty())
    program.emit(op::all_gather, {values.parameters, updated[0]},
                 {{"counts", Shape(shards.counts)}, {"rank", int64_t{shards.rank}}});
  return norm;
}

}  // namespace lathe
