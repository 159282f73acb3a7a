// What a program's own batches and options may do to a session.
#include "lathe/train/session.h"

#include <gtest/gtest.h>

#include <functional>

#include "lathe/app/four_samples_testing.h"
#include "lathe/backends/register.h"
#include "lathe/train/auto_model.h"

namespace lathe {
namespace {

class OwnBatch : public testing::Test {
 protected:
  /// The loss of a step on the four samples after `change`.
  float loss(const std::function<void(PackedBatch&)>& change, const Session::Options& options = {}) {
    Session session(*backend_, *model_.model, options);
    initialize(session, model_, 1);
    const std::vector<int32_t> all = {0, 1, 2, 3};
    PackedBatch batch;
    pack_batch(data_, all, {.rounding = session.token_rounding()}, batch);
    change(batch);
    return session.collect(session.step(batch, {})).loss;
  }
  std::unique_ptr<Backend> backend_ = open_device("cpu", {1});
  TokenizedDataset data_ = four_samples();
  AutoModel model_ = from_pretrained(real_file_system(), kTinyModel, {Problem::kSingleLabel, {}, false});
};

TEST_F(OwnBatch, RunsWhereNoProgramIsToBeKept) {
  EXPECT_EQ(loss([](PackedBatch&) {}, {.cached_programs = 0}), loss([](PackedBatch&) {}));
}

}  // namespace
}  // namespace lathe
