// A label for each token that begins a word.
#include <fmt/format.h>

#include "lathe/core/error.h"
#include "lathe/ops/losses.h"
#include "lathe/tasks/tasks.h"

namespace lathe {
namespace {

class TokenLabels : public Task {
 public:
  explicit TokenLabels(int64_t labels)
      : Task({HeadKind::kTokenClassification, labels}, {{.name = "labels", .extent = Extent::kToken}}) {}
  bool names_labels() const override { return true; }
  void check_values(const TokenizedDataset& data, const char* what) const override {
    const std::vector<int32_t>& labels = data.tensors.ints("labels");
    for (int64_t sample = 0; sample < data.size(); ++sample)
      for (int64_t token = data.begins[sample]; token < data.begins[sample + 1]; ++token)
        if (labels[token] >= head().labels)
          fail(ErrorCode::kInvalidData, "{}: token {} of sample {} has the label {}, expected one below {}",
               what, token - data.begins[sample], sample, labels[token], head().labels);
  }
  /// Labels below 0 are ignored.
  LossAndCorrect loss(const HeadOutput& out, nn::Inputs& inputs, const LossOptions& options) const override {
    return {out.scores.program->emit(op::cross_entropy, {out.scores, inputs.token("labels")},
                                     {{"smoothing", options.smoothing}})[0],
            {}};
  }
  bool smooths() const override { return true; }
  std::string agreement_text(const Predictions& a, const Predictions& b) const override {
    return fmt::format("the same prediction for {:.2f} % of all tokens", 100 * agreement(a, b));
  }
};

}  // namespace

TaskPtr token_labels(int64_t labels) { return std::make_shared<TokenLabels>(labels); }

}  // namespace lathe
