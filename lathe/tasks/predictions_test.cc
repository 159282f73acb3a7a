#include "lathe/tasks/predictions.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lathe {
namespace {

constexpr float kNan = NAN, kInf = INFINITY;

Predictions of(std::vector<float> logits) {
  return {.logits = std::move(logits), .columns = 2, .begins = {}};
}

TEST(Agreement, WhatIsNotFiniteAgreesWithNothing) {
  const Predictions a = of({1, 2, kNan, kNan, kInf, 0, 2, 1});
  EXPECT_EQ(agreement(a, a), 0.5);
  EXPECT_EQ(agreement_of_labels(a, a), 0.5);
  EXPECT_EQ(agreement(of({1, 2}), of({1, kNan})), 0);
  EXPECT_TRUE(std::isnan(mean_distance(of({1, kNan}), of({1, 2}))));
}

TEST(BestRows, AreCountedWithinTheirSample) {
  Predictions a{.logits = {1, 3, 2, 5, 4}, .columns = 1, .begins = {0, 3, 5}};
  EXPECT_EQ(best_rows(a), (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(agreement_of_rows(a, a), 1);
  Predictions b = a;
  b.logits = {1, 3, 4, 5, 4};
  EXPECT_EQ(agreement_of_rows(a, b), 0.5);
  b.logits = {1, 3, 2, 5, kNan};
  EXPECT_EQ(agreement_of_rows(a, b), 0.5);
  EXPECT_EQ(unpredicted(b), 1);
}

/// As numpy.argmax has it.
TEST(BestClasses, AreTheFirstOfEqualOnes) {
  EXPECT_EQ(best_classes(of({1, 1, 1, 2, 2, 1})), (std::vector<int32_t>{0, 1, 0}));
}

TEST(Unpredicted, CountsSamplesNotLogits) {
  EXPECT_EQ(unpredicted(of({1, 2, kNan, kNan, -kInf, 0})), 2);
  EXPECT_EQ(unpredicted({}), 0);
  Predictions answers = of({1, 2, 3, 4, kInf, 6});  // two questions, of one token and of two
  answers.begins = {0, 1, 3};
  EXPECT_EQ(unpredicted(answers), 1);
}

}  // namespace
}  // namespace lathe
