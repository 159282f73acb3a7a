#include "lathe/models/task_model.h"

#include <algorithm>

namespace lathe {

bool TaskModel::base_frozen() const {
  const auto frozen = [&](const nn::Parameter& p) {
    return !p.trainable || !p.name.starts_with(base_prefix());
  };
  return std::all_of(parameters().begin(), parameters().end(), frozen);
}

}  // namespace lathe
