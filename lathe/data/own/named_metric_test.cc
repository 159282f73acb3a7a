#include "lathe/data/own/named_metric.h"

#include <gtest/gtest.h>

#include "lathe/core/error.h"
#include "lathe/data/test_data.h"

namespace lathe {
namespace {

TEST(NamedMetric, ValuesAreThoseOfScikitLearn) {
  const std::vector<int32_t> predicted = {1, 1, 0, 1, 0}, labels = {1, 0, 1, 1, 0};
  EXPECT_DOUBLE_EQ(named_metric("precision", predicted, labels), 2.0 / 3);
  EXPECT_DOUBLE_EQ(named_metric("recall", predicted, labels), 2.0 / 3);
  EXPECT_DOUBLE_EQ(named_metric("f1", predicted, labels), 2.0 / 3);
  EXPECT_DOUBLE_EQ(named_metric("accuracy", predicted, labels), 0.6);
  const std::vector<int32_t> none = {0, 0, 0, 0, 0};
  EXPECT_EQ(named_metric("precision", none, labels), 0);
  const std::vector<float> values = {1, 2, 4}, wanted = {1, 3, 2};
  EXPECT_DOUBLE_EQ(named_metric("mae", values, wanted), 1);
  EXPECT_DOUBLE_EQ(named_metric("mse", values, wanted), 5.0 / 3);
  message_of(ErrorCode::kUsage, [&] { named_metric("mae", predicted, labels); });
}

TEST(NamedMetric, ChoicesFitTheLabels) {
  EXPECT_EQ(metric_choices({LabelKind::kClasses, {"a", "b", "c"}}),
            (Values{"accuracy", "matthews_correlation"}));
  EXPECT_EQ(metric_choices({LabelKind::kClasses, {"a", "b"}}).size(), 5u);
  EXPECT_EQ(metric_choices({LabelKind::kMultiLabel, {"a"}}).front(), "f1");
  EXPECT_EQ(metric_choices({LabelKind::kRegression, {}}).front(), "mse");
}

}  // namespace
}  // namespace lathe
