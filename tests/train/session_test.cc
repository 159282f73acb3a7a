// What a program's own batches and options may do to a session.
#include "lathe/engine/session.h"

#include <gtest/gtest.h>

#include <functional>

#include "lathe/backends/register.h"
#include "lathe/train/auto_model.h"
#include "lathe/train/four_samples_testing.h"

namespace lathe {
namespace {

class OwnBatch : public testing::Test {
 protected:
  /// The loss of a step on the four samples after `change`.
  float loss(const std::function<void(PackedBatch&)>& change, const Session::Options& options = {}) {
    Session session(*backend_, *model_.model, options);
    initialize(session.parameters(), model_, 1);
    const std::vector<int32_t> all = {0, 1, 2, 3};
    PackedBatch batch;
    pack_batch(data_, all, {.rounding = session.token_rounding()}, batch);
    change(batch);
    return session.collect(session.step(batch, {})).loss;
  }
  std::string error(const std::function<void(PackedBatch&)>& change) {
    try {
      loss(change);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidData) << error.what();
      return error.what();
    }
    return "no error";
  }

  std::unique_ptr<Backend> backend_ = open_device("cpu", {1});
  TokenizedDataset data_ = four_samples();
  AutoModel model_ = from_pretrained(real_file_system(), kTinyModel, {single_label, {}, false});
};

#define EXPECT_SAYS(text, change)                                    \
  do {                                                               \
    const std::string found = error([](PackedBatch& b) { change; }); \
    EXPECT_NE(found.find(text), std::string::npos) << found;         \
  } while (false)

TEST_F(OwnBatch, ThatDoesNotFitTogetherIsRefused) {
  EXPECT_EQ(error([](PackedBatch&) {}), "no error");
  EXPECT_SAYS("a batch has no labels, from which its task learns", b.tensors.erase("labels"));
  EXPECT_SAYS("a batch has no labels, from which its task learns",
              b.tensors.floats("labels").assign(4, 1.0f));
  EXPECT_SAYS("has 5 cu_seqlens, from 0 to", b.cu_seqlens.back() = b.tokens + 1);
  EXPECT_SAYS("from -5 to 12", b.cu_seqlens[0] = -5);
  EXPECT_SAYS("has 4 cu_seqlens", b.cu_seqlens.pop_back());
  EXPECT_SAYS("has 0 cu_seqlens;", b.cu_seqlens.clear());
  EXPECT_SAYS("row 1 of a batch has no tokens", b.cu_seqlens[1] = 1'000'000);
  EXPECT_SAYS("a batch of 5 rows", b.rows = 5);
  EXPECT_SAYS("a batch of 2147483647 rows", b.rows = INT32_MAX);
  EXPECT_SAYS("a batch of -1 rows", b.rows = -1);
  EXPECT_SAYS("has 3 sample_ids", b.sample_ids.resize(3));
  EXPECT_SAYS("cls_index 1000000 lies outside", b.cls_index[0] = 1'000'000);
  EXPECT_SAYS("cls_index -1 lies outside", b.cls_index[3] = -1);
}

TEST_F(OwnBatch, RunsWhereNoProgramIsToBeKept) {
  EXPECT_EQ(loss([](PackedBatch&) {}, {.cached_programs = 0}), loss([](PackedBatch&) {}));
}

/// As a program may give one to Trainer::predict.
TEST(ScoredTokens, ABatchWithoutThemIsRefusedByAHeadOverTheVocabulary) {
  const auto backend = open_device("cpu", {1});
  const AutoModel model = from_pretrained(real_file_system(), kTinyModel, {masked_lm, {}, false});
  Session session(*backend, *model.model, {});
  TokenizedDataset data = four_samples();
  data.tensors.clear();
  PackedBatch batch;
  pack_batch(data, std::vector<int32_t>{0, 1}, {}, batch);
  std::vector<float> logits;
  try {
    session.evaluate(batch, logits);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidData) << error.what();
  }
}

}  // namespace
}  // namespace lathe
