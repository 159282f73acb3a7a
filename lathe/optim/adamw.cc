#include "lathe/optim/adamw.h"

#include "lathe/ops/ops.h"

namespace lathe {

Value append_adamw(const OptimizerValues& values, Value loss, Value hyper, const AdamWOptions& options) {
  Program& program = *values.parameters.program;
  const Value norm = program.emit(op::grad_norm, {values.gradients, hyper})[0];
  program.emit(op::adamw,
               {values.parameters, values.gradients, values.exp_avg, values.exp_avg_sq, norm,
                loss ? loss : norm, hyper},
               {{"beta1", options.beta1},
                {"beta2", options.beta2},
                {"eps", options.eps},
                {"weight_decay", options.weight_decay},
                {"decayed", values.decayed}});
  return norm;
}

}  // namespace lathe
