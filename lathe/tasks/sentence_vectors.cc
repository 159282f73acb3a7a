// One vector of each text.
#include "lathe/core/error.h"
#include "lathe/tasks/tasks.h"

namespace lathe {
namespace {

class SentenceVectors : public Task {
 public:
  SentenceVectors() : Task({HeadKind::kSentenceVector, 0}, {}) {}
  LossAndCorrect loss(const HeadOutput&, nn::Inputs&, const LossOptions&) const override {
    fail(ErrorCode::kInternal, "vectors of texts were asked for a loss; a task that trains them has one");
  }
};

}  // namespace

TaskPtr sentence_vectors(int64_t) { return std::make_shared<SentenceVectors>(); }

}  // namespace lathe
