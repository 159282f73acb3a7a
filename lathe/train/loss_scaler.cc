#include "lathe/train/loss_scaler.h"

#include <limits>

namespace lathe {

bool LossScaler::finish(bool finite_loss, bool finite_norm) {
  state_.bad_losses = finite_loss ? 0 : state_.bad_losses + 1;
  if (!finite_loss || !finite_norm) {
    state_.scale /= 2;
    state_.growth_tracker = 0;
    return false;
  }
  if (++state_.growth_tracker == kGrowthInterval) {
    state_.growth_tracker = 0;
    if (state_.scale * 2 <= std::numeric_limits<float>::max()) state_.scale *= 2;
  }
  return true;
}

}  // namespace lathe
