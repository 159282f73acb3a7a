#include "lathe/app/commands/predict/prediction_cells.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lathe {
namespace {

using Names = std::vector<std::string>;

TEST(PredictionCells, EachProblemHasItsColumns) {
  const Names labels{"a", "b", "c"};
  EXPECT_EQ(prediction_names(LabelKind::kClasses, labels, 0), (Names{"label", "score"}));
  EXPECT_EQ(prediction_names(LabelKind::kClasses, labels, 1), (Names{"label_1", "score_1"}));
  EXPECT_EQ(prediction_names(LabelKind::kMultiLabel, labels, 9).size(), 6u);
  EXPECT_EQ(prediction_names(LabelKind::kMultiLabel, labels, 0),
            (Names{"labels", "score_a", "score_b", "score_c"}));
  EXPECT_EQ(prediction_names(LabelKind::kRegression, {"LABEL_0"}, 0), (Names{"score"}));
  EXPECT_EQ(prediction_names(LabelKind::kRegression, {"x", "y"}, 0), (Names{"score_x", "score_y"}));
}

TEST(PredictionCells, OfOneLabelTheLikeliestAndOfSeveralThoseAboveOneHalf) {
  const Names labels{"a", "b", "c"};
  const std::vector<double> p{0.25, 0.625, 0.625};
  const std::vector<Cell> one = prediction_cells(LabelKind::kClasses, labels, 0, p);
  ASSERT_EQ(one.size(), 2u);
  EXPECT_EQ(one[0].text, "b");
  EXPECT_EQ(one[1].number, 0.625f);
  const std::vector<Cell> ranks = prediction_cells(LabelKind::kClasses, labels, 9, p);
  ASSERT_EQ(ranks.size(), 6u);
  EXPECT_EQ(ranks[2].text, "c");
  EXPECT_EQ(ranks[4].text, "a");
  const std::vector<Cell> several = prediction_cells(LabelKind::kMultiLabel, labels, 0, p);
  ASSERT_EQ(several.size(), 4u);
  EXPECT_EQ(several[0].texts, (Names{"b", "c"}));
  EXPECT_EQ(several[1].number, 0.25f);
}

TEST(PredictionCells, WithoutFiniteLogitsThereIsNoLabel) {
  const float logits[] = {1, INFINITY};
  for (const LabelKind kind : {LabelKind::kClasses, LabelKind::kMultiLabel}) {
    const std::vector<double> p = probabilities(kind, logits, 2);
    const std::vector<Cell> cells = prediction_cells(kind, {"a", "b"}, 0, p);
    EXPECT_EQ(cells[0].kind, Cell::Kind::kNone);
    EXPECT_TRUE(std::isnan(cells[1].number));
  }
}

}  // namespace
}  // namespace lathe
