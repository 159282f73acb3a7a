// The tokens that masks stand for.
#include "lathe/tasks/tasks.h"

namespace lathe {
namespace {

class MaskedLm : public Task {
 public:
  MaskedLm() : Task({HeadKind::kMaskedLM, 0}, {{.name = "labels", .extent = Extent::kScored}}) {}
  /// Labels outside of the vocabulary are ignored.
  LossAndCorrect loss(const HeadOutput& out, nn::Inputs& inputs, const LossOptions& options) const override {
    return linear_cross_entropy(out.rows, out.table, out.bias, inputs.scored("labels"), options.smoothing);
  }
  bool keeps_scores() const override { return false; }
  bool smooths() const override { return true; }
};

}  // namespace

TaskPtr masked_lm(int64_t) { return std::make_shared<MaskedLm>(); }

}  // namespace lathe
