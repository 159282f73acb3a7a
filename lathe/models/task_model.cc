#include "lathe/models/task_model.h"

#include <algorithm>

#include "lathe/ops/functional.h"
#include "lathe/ops/losses.h"

namespace lathe {

bool TaskModel::base_frozen() const {
  const auto frozen = [&](const nn::Parameter& p) {
    return !p.trainable || !p.name.starts_with(base_prefix());
  };
  return std::all_of(parameters().begin(), parameters().end(), frozen);
}

Value TaskModel::loss(Value logits, const Targets& targets) const {
  Program& program = *logits.program;
  switch (problem_) {
    case Problem::kSingleLabel:
    case Problem::kMaskedLm:
      return program.emit(op::cross_entropy, {logits, targets.labels}, {{"smoothing", targets.smoothing}})[0];
    case Problem::kMultiLabel:
      return program.emit(op::bce_with_logits, {logits, targets.values})[0];
    case Problem::kRegression:
      return program.emit(op::mse, {logits, targets.values})[0];
    case Problem::kQuestionAnswering:
      break;
  }
  const Value cu = trace().batch.cu;
  const Value start =
      program.emit(op::segment_cross_entropy, {logits, cu, targets.starts}, {{"column", int64_t{0}}})[0];
  const Value end =
      program.emit(op::segment_cross_entropy, {logits, cu, targets.ends}, {{"column", int64_t{1}}})[0];
  return scale(add(start, end), 0.5);
}

}  // namespace lathe
