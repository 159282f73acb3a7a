// The token that comes after others.
#include "lathe/tasks/tasks.h"

namespace lathe {
namespace {

/// "labels" of a token: the one after it; −100 where that is not learnt.
class CausalLm : public Task {
 public:
  CausalLm() : Task({HeadKind::kCausalLM, 0}, {{.name = "labels", .extent = Extent::kScored}}) {}
  LossAndCorrect loss(const HeadOutput& out, nn::Inputs& inputs, const LossOptions& options) const override {
    return linear_cross_entropy(out.rows, out.table, out.bias, inputs.scored("labels"), options.smoothing);
  }
  bool keeps_scores() const override { return false; }
  bool smooths() const override { return true; }
  bool weighs_tokens() const override { return true; }
};

}  // namespace

TaskPtr causal_lm(int64_t) { return std::make_shared<CausalLm>(); }

}  // namespace lathe
