#include "lathe/tasks/task.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe {

bool Task::is_labelled(const TensorList& tensors) const {
  return !targets_.empty() && std::all_of(targets_.begin(), targets_.end(), [&](const Target& target) {
    return !(target.floats ? tensors.floats(target.name).empty() : tensors.ints(target.name).empty());
  });
}

void Task::check_values(const TokenizedDataset&, const char*) const {}

std::string Task::agreement_text(const Predictions& a, const Predictions& b) const {
  return fmt::format("the same prediction for {:.2f} % of the samples", 100 * agreement(a, b));
}

}  // namespace lathe
