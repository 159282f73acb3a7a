// One label, several labels or values for each sample.
#include <fmt/format.h>

#include "lathe/core/error.h"
#include "lathe/ops/losses.h"
#include "lathe/tasks/tasks.h"

namespace lathe {
namespace {

class SingleLabel : public Task {
 public:
  explicit SingleLabel(int64_t labels) : Task({HeadKind::kSequenceClassification, labels}, {{"labels"}}) {}
  std::string problem_type() const override { return "single_label_classification"; }
  std::optional<LabelKind> label_kind() const override { return LabelKind::kClasses; }
  void check_values(const TokenizedDataset& data, const char* what) const override {
    const std::vector<int32_t>& labels = data.tensors.ints("labels");
    for (int64_t i = 0; i < std::ssize(labels); ++i)
      if (labels[i] >= head().labels)
        fail(ErrorCode::kInvalidData, "{}: sample {} has the label {}, expected one below {}", what, i,
             labels[i], head().labels);
  }
  LossAndCorrect loss(const HeadOutput& out, nn::Inputs& inputs, const LossOptions& options) const override {
    return {out.scores.program->emit(op::cross_entropy, {out.scores, inputs.row("labels")},
                                     {{"smoothing", options.smoothing}})[0],
            {}};
  }
  bool smooths() const override { return true; }
};

/// Float targets, a column for each label.
class ByColumn : public Task {
 public:
  ByColumn(int64_t labels, LabelKind kind, const char* problem_type, const OpDef& loss)
      : Task({HeadKind::kSequenceClassification, labels},
             {{"labels", true, Extent::kRow, labels, "targets"}}),
        kind_(kind),
        problem_type_(problem_type),
        loss_(loss) {}
  std::string problem_type() const override { return problem_type_; }
  std::optional<LabelKind> label_kind() const override { return kind_; }
  LossAndCorrect loss(const HeadOutput& out, nn::Inputs& inputs, const LossOptions&) const override {
    const Value labels = inputs.row("labels", DType::f32, head().labels);
    return {out.scores.program->emit(loss_, {out.scores, labels})[0], {}};
  }
  std::string agreement_text(const Predictions& a, const Predictions& b) const override {
    if (kind_ == LabelKind::kMultiLabel)
      return fmt::format("the same prediction for {:.2f} % of the samples", 100 * agreement_of_labels(a, b));
    return fmt::format("values differ by {:.4f} on average", mean_distance(a, b));
  }

 private:
  LabelKind kind_;
  const char* problem_type_;
  const OpDef& loss_;
};

/// As sentence-transformers has it: its losses know no number of items.
template <typename Of>
class OfPairs : public Of {
 public:
  using Of::Of;
  std::string problem_type() const override { return ""; }
  bool takes_item_count() const override { return false; }
};

}  // namespace

TaskPtr single_label(int64_t labels) { return std::make_shared<SingleLabel>(labels); }
TaskPtr multi_label(int64_t labels) {
  return std::make_shared<ByColumn>(labels, LabelKind::kMultiLabel, "multi_label_classification",
                                    op::bce_with_logits);
}
TaskPtr regression(int64_t labels) {
  return std::make_shared<ByColumn>(labels, LabelKind::kRegression, "regression", op::mse);
}
TaskPtr pair_score(int64_t) {
  return std::make_shared<OfPairs<ByColumn>>(1, LabelKind::kRegression, "", op::bce_with_logits);
}
TaskPtr pair_value(int64_t) {
  return std::make_shared<OfPairs<ByColumn>>(1, LabelKind::kRegression, "", op::mse);
}
TaskPtr pair_class(int64_t labels) { return std::make_shared<OfPairs<SingleLabel>>(labels); }

}  // namespace lathe
