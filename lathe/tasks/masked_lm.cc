// The tokens that masks stand for.
#include "lathe/ops/losses.h"
#include "lathe/tasks/tasks.h"

namespace lathe {
namespace {

class MaskedLm : public Task {
 public:
  MaskedLm() : Task({HeadKind::kMaskedLM, 0}, {{.name = "labels", .extent = Extent::kToken}}) {}
  /// Labels outside of the vocabulary are ignored.
  Value loss(Value scores, nn::Inputs& inputs, const LossOptions& options) const override {
    return scores.program->emit(op::cross_entropy, {scores, inputs.token("labels")},
                                {{"smoothing", options.smoothing}})[0];
  }
  bool smooths() const override { return true; }
};

}  // namespace

TaskPtr masked_lm(int64_t) { return std::make_shared<MaskedLm>(); }

}  // namespace lathe
