// One of several rows, such as the endings of a text.
#include <fmt/format.h>

#include "lathe/core/error.h"
#include "lathe/ops/losses.h"
#include "lathe/tasks/tasks.h"

namespace lathe {
namespace {

class MultipleChoice : public Task {
 public:
  MultipleChoice() : Task({HeadKind::kMultipleChoice, 1}, {{"labels"}}) {}
  bool compares_rows() const override { return true; }
  void check_values(const TokenizedDataset& data, const char* what) const override {
    const std::vector<int32_t>& labels = data.tensors.ints("labels");
    for (int64_t i = 0; i < data.size(); ++i)
      if (labels[i] >= data.rows_of(i))
        fail(ErrorCode::kInvalidData, "{}: sample {} has the label {}, expected one below {}, its rows", what,
             i, labels[i], data.rows_of(i));
  }
  /// The label is a row within the sample; outside of it: ignored.
  LossAndCorrect loss(const HeadOutput& out, nn::Inputs& inputs, const LossOptions&) const override {
    return {out.scores.program->emit(op::segment_cross_entropy,
                                     {out.scores, inputs.first_rows(), inputs.sample("labels")})[0],
            {}};
  }
  bool takes_item_count() const override { return false; }
  std::string agreement_text(const Predictions& a, const Predictions& b) const override {
    return fmt::format("the same prediction for {:.2f} % of the samples", 100 * agreement_of_rows(a, b));
  }
};

}  // namespace

TaskPtr multiple_choice(int64_t) { return std::make_shared<MultipleChoice>(); }

}  // namespace lathe
