// The span of a text that answers a question.
#include "lathe/ops/functional.h"
#include "lathe/ops/losses.h"
#include "lathe/tasks/tasks.h"

namespace lathe {
namespace {

class QuestionAnswering : public Task {
 public:
  QuestionAnswering()
      : Task({HeadKind::kQuestionAnswering, 2}, {{.name = "start_positions", .words = "start positions"},
                                                 {.name = "end_positions", .words = "end positions"}}) {}
  /// A position is a token within the row; outside of it: ignored.
  LossAndCorrect loss(const HeadOutput& out, nn::Inputs& inputs, const LossOptions&) const override {
    const Value scores = out.scores;
    const auto of = [&](const char* name, int64_t column) {
      return scores.program->emit(op::segment_cross_entropy, {scores, inputs.bounds(), inputs.row(name)},
                                  {{"column", column}})[0];
    };
    const Value start = of("start_positions", 0), end = of("end_positions", 1);
    return {scale(add(start, end), 0.5), {}};
  }
  bool takes_item_count() const override { return false; }
  bool scores_texts() const override { return true; }
};

}  // namespace

TaskPtr question_answering(int64_t) { return std::make_shared<QuestionAnswering>(); }

}  // namespace lathe
