#include "lathe/tasks/check_dataset.h"

#include <gtest/gtest.h>

#include <string>

#include "lathe/core/error.h"
#include "lathe/tasks/tasks.h"

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

std::vector<int32_t>& ints(TokenizedDataset& data, const char* name) { return data.tensors.ints(name); }

std::string message(const TokenizedDataset& data, MakeTask task, int64_t labels) {
  try {
    check_dataset(data, *task(labels), "data");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
    return error.what();
  }
  return "";
}

TEST(CheckDataset, NamesASampleWithoutTokens) {
  TokenizedDataset data = rows();
  EXPECT_EQ(message(data, single_label, 2), "");
  data.begins = {0, 2, 2, 6};
  EXPECT_EQ(message(data, single_label, 2),
            "data: sample 1 has no tokens, expected at least one: is its text empty?");
}

TEST(CheckDataset, OfAMaskedLmThereIsALabelForEachToken) {
  TokenizedDataset data = rows();
  data.tensors.ints("labels", Extent::kScored).assign(6, -100);
  EXPECT_EQ(message(data, masked_lm, 0), "");
  EXPECT_TRUE(masked_lm(0)->is_labelled(data.tensors));
  data.tensors.ints("labels", Extent::kScored).assign(3, 0);
  EXPECT_EQ(message(data, masked_lm, 0), "data: found 3 labels, expected 6");
  data.tensors.ints("labels") = {0, 0, 0};
  EXPECT_EQ(message(data, masked_lm, 0), "data: found labels for each sample, expected one for each token");
}

TEST(CheckDataset, OfAChoiceASampleHasSeveralRowsAndItsLabelIsOneOfThem) {
  TokenizedDataset data = rows();
  data.first_rows = {0, 3};
  ints(data, "labels") = {2};
  EXPECT_EQ(message(data, multiple_choice, 1), "");
  EXPECT_EQ(message(data, single_label, 3),
            "data: found samples of several rows, expected one row each for this head");
  ints(data, "labels") = {3};
  EXPECT_EQ(message(data, multiple_choice, 1),
            "data: sample 0 has the label 3, expected one below 3, its rows");
  data.first_rows = {0, 1, 3};
  ints(data, "labels") = {0, 0};
  EXPECT_EQ(message(data, multiple_choice, 1),
            "data: sample 0 has 1 rows, expected at least 2 to choose from");
  data.first_rows = {};
  EXPECT_EQ(message(data, multiple_choice, 1),
            "data: found no first rows of samples from 0 to 3, which this head compares");
}

TEST(CheckDataset, NamesTheTokenWithALabelThatTheHeadLacks) {
  TokenizedDataset data = rows();
  data.tensors.ints("labels", Extent::kToken) = {-100, 1, 0, -100, 2, 0};
  EXPECT_EQ(message(data, token_labels, 3), "");
  EXPECT_EQ(message(data, token_labels, 2),
            "data: token 0 of sample 2 has the label 2, expected one below 2");
}

TEST(CheckDataset, NeedsBeginsOfSamplesAndTheirTokens) {
  const auto with = [](std::vector<int64_t> begins) {
    TokenizedDataset data = rows();
    data.begins = std::move(begins);
    return message(data, single_label, 2);
  };
  EXPECT_EQ(with({}), "data: found no begins of samples, expected one for each and the end of the last");
  EXPECT_EQ(with({-2, 2}), "data: sample 0 begins at token -2, expected 0 or more");
  EXPECT_EQ(with({0}), "");
  EXPECT_EQ(with({0, 2, 5}), "");
  EXPECT_EQ(with({0, 2, 7}), "data: found 6 token ids, expected 7, where the last sample ends");
  TokenizedDataset data = rows();
  for (const size_t count : {size_t{0}, size_t{5}}) {
    data.type_ids.resize(count);
    EXPECT_EQ(message(data, single_label, 2),
              "data: found " + std::to_string(count) + " type ids, expected 6, where the last sample ends");
  }
}

TEST(CheckDataset, NeedsWhatTheHeadLearnsFrom) {
  TokenizedDataset data = rows();
  ints(data, "start_positions") = {0, 0, 1};
  ints(data, "end_positions") = {0, 0, 1};
  EXPECT_EQ(message(data, single_label, 2), "data: found start positions, expected labels for this head");
  ints(data, "labels") = {0, 1, 1};
  EXPECT_EQ(message(data, single_label, 2), "");
  ints(data, "start_positions").clear();
  ints(data, "end_positions").clear();
  EXPECT_EQ(message(data, regression, 1), "data: found labels, expected targets for this head");
  EXPECT_EQ(message(data, question_answering, 0),
            "data: found labels, expected start positions for this head");
  data.tensors.floats("labels") = {0, 1, 1};
  EXPECT_EQ(message(data, single_label, 2), "data: found targets, expected labels for this head");
}

TEST(CheckDataset, NeedsOneLabelForEachSampleThatTheHeadHas) {
  TokenizedDataset data = rows();
  EXPECT_FALSE(single_label(2)->is_labelled(data.tensors));
  ints(data, "labels") = {0, -100, 1};
  EXPECT_EQ(message(data, single_label, 2), "");
  EXPECT_TRUE(single_label(2)->is_labelled(data.tensors));
  EXPECT_FALSE(regression(2)->is_labelled(data.tensors));
  EXPECT_EQ(message(data, single_label, 1), "data: sample 2 has the label 1, expected one below 1");
  ints(data, "labels").pop_back();
  EXPECT_EQ(message(data, single_label, 2), "data: found 2 labels, expected 3");
}

TEST(CheckDataset, NeedsAsManyTargetsAsTheHeadHas) {
  TokenizedDataset data = rows();
  data.tensors.floats("labels", 2).assign(6, 0);
  EXPECT_EQ(message(data, multi_label, 2), "");
  EXPECT_TRUE(multi_label(2)->is_labelled(data.tensors));
  EXPECT_EQ(message(data, multi_label, 3), "data: found 2 targets for each sample, expected 3");
  data.tensors.floats("labels", 1);
  EXPECT_EQ(message(data, regression, 1), "data: found 6 targets, expected 3");
}

TEST(CheckDataset, NeedsBothEndsOfAnAnswer) {
  TokenizedDataset data = rows();
  ints(data, "start_positions") = {0, 0, 1};
  ints(data, "end_positions") = {0, 0, 1};
  EXPECT_EQ(message(data, question_answering, 0), "");
  ints(data, "end_positions").clear();
  EXPECT_EQ(message(data, question_answering, 0),
            "data: found 0 end positions, expected 3 as there are start positions");
}

}  // namespace
}  // namespace lathe
