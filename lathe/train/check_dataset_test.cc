#include "lathe/train/check_dataset.h"

#include <gtest/gtest.h>

#include <string>

#include "lathe/core/error.h"

namespace lathe {
namespace {

/// Three samples of two tokens.
TokenizedDataset rows() {
  TokenizedDataset data;
  data.input_ids.assign(6, 1);
  data.type_ids.assign(6, 0);
  data.begins = {0, 2, 4, 6};
  return data;
}

std::string message(const TokenizedDataset& data, Problem problem, int64_t labels) {
  try {
    check_dataset(data, problem, labels, "data");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
    return error.what();
  }
  return "";
}

TEST(CheckDataset, NamesASampleWithoutTokens) {
  TokenizedDataset data = rows();
  EXPECT_EQ(message(data, Problem::kSingleLabel, 2), "");
  data.begins = {0, 2, 2, 6};
  EXPECT_EQ(message(data, Problem::kSingleLabel, 2),
            "data: sample 1 has no tokens, expected at least one: is its text empty?");
}

TEST(CheckDataset, RefusesAMaskedLm) {
  TokenizedDataset data = rows();
  for (const size_t labels : {0, 3, 6}) {
    data.labels.assign(labels, 0);
    try {
      check_dataset(data, Problem::kMaskedLm, 2, "data");
      ADD_FAILURE() << labels;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_EQ(error.what(),
                std::string("data: the model is a masked LM, which learns a label for each token; "
                            "a Trainer needs a head with labels for each sample: train a masked LM "
                            "with a Session"));
    }
  }
}

TEST(CheckDataset, NeedsBeginsOfSamplesAndTheirTokens) {
  const auto with = [](std::vector<int64_t> begins) {
    TokenizedDataset data = rows();
    data.begins = std::move(begins);
    return message(data, Problem::kSingleLabel, 2);
  };
  EXPECT_EQ(with({}), "data: found no begins of samples, expected one for each and the end of the last");
  EXPECT_EQ(with({-2, 2}), "data: sample 0 begins at token -2, expected 0 or more");
  EXPECT_EQ(with({0}), "");
  EXPECT_EQ(with({0, 2, 5}), "");
  EXPECT_EQ(with({0, 2, 7}), "data: found 6 token ids, expected 7, where the last sample ends");
  TokenizedDataset data = rows();
  for (const size_t count : {size_t{0}, size_t{5}}) {
    data.type_ids.resize(count);
    EXPECT_EQ(message(data, Problem::kSingleLabel, 2),
              "data: found " + std::to_string(count) + " type ids, expected 6, where the last sample ends");
  }
}

TEST(CheckDataset, NeedsWhatTheHeadLearnsFrom) {
  TokenizedDataset data = rows();
  data.start_positions = data.end_positions = {0, 0, 1};
  EXPECT_EQ(message(data, Problem::kSingleLabel, 2),
            "data: found start positions, expected labels for this head");
  data.labels = {0, 1, 1};
  EXPECT_EQ(message(data, Problem::kSingleLabel, 2), "");
  data.start_positions.clear();
  data.end_positions.clear();
  EXPECT_EQ(message(data, Problem::kRegression, 1), "data: found labels, expected targets for this head");
  EXPECT_EQ(message(data, Problem::kQuestionAnswering, 0),
            "data: found labels, expected start positions for this head");
  data.labels.clear();
  data.targets = {0, 1, 1};
  EXPECT_EQ(message(data, Problem::kSingleLabel, 2), "data: found targets, expected labels for this head");
}

TEST(CheckDataset, NeedsOneLabelForEachSampleThatTheHeadHas) {
  TokenizedDataset data = rows();
  EXPECT_FALSE(is_labelled(data, Problem::kSingleLabel));
  data.labels = {0, -100, 1};
  EXPECT_EQ(message(data, Problem::kSingleLabel, 2), "");
  EXPECT_TRUE(is_labelled(data, Problem::kSingleLabel));
  EXPECT_FALSE(is_labelled(data, Problem::kRegression));
  EXPECT_EQ(message(data, Problem::kSingleLabel, 1), "data: sample 2 has the label 1, expected one below 1");
  data.labels.pop_back();
  EXPECT_EQ(message(data, Problem::kSingleLabel, 2), "data: found 2 labels, expected 3");
}

TEST(CheckDataset, NeedsAsManyTargetsAsTheHeadHas) {
  TokenizedDataset data = rows();
  data.targets.assign(6, 0);
  data.num_targets = 2;
  EXPECT_EQ(message(data, Problem::kMultiLabel, 2), "");
  EXPECT_TRUE(is_labelled(data, Problem::kMultiLabel));
  EXPECT_EQ(message(data, Problem::kMultiLabel, 3), "data: found 2 targets for each sample, expected 3");
  data.num_targets = 1;
  EXPECT_EQ(message(data, Problem::kRegression, 1), "data: found 6 targets, expected 3");
}

TEST(CheckDataset, NeedsBothEndsOfAnAnswer) {
  TokenizedDataset data = rows();
  data.start_positions = {0, 0, 1};
  data.end_positions = {0, 0, 1};
  EXPECT_EQ(message(data, Problem::kQuestionAnswering, 0), "");
  data.end_positions.clear();
  EXPECT_EQ(message(data, Problem::kQuestionAnswering, 0),
            "data: found 0 end positions, expected 3 as there are start positions");
}

}  // namespace
}  // namespace lathe
