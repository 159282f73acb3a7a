#include "lathe/data/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lathe/data/golden_testing.h"
#include "lathe/data/test_data.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

// Sums of a few thousand terms of order 1 in double: n · 2^-53 relative at most.
constexpr double kBound = 2e-12;

TEST(Metrics, ClassesAsScikitLearn) {
  for (const auto& c : golden("reference.json", "classes")) {
    const size_t n = c["n"];
    const uint32_t classes = c["classes"];
    const uint64_t seed = c["seed"];
    const auto labels = pseudo(n, classes, seed), keep = pseudo(n, 3, seed + 200);
    auto guess = pseudo(n, classes, seed + 100);
    for (size_t i = 0; i < n; ++i)
      if (keep[i] > 0) guess[i] = labels[i];
    EXPECT_NEAR(accuracy(guess, labels), c["accuracy"], kBound);
    EXPECT_NEAR(matthews_correlation(guess, labels), c["mcc"], kBound);
    if (classes == 2) {
      EXPECT_NEAR(binary_f1(guess, labels), c["f1"], kBound);
    }
  }
}

TEST(Metrics, RegressionAsScipy) {
  for (const auto& c : golden("reference.json", "regression")) {
    const size_t n = c["n"];
    const auto truth = pseudo(n, c["modulus"], c["seed"].get<uint64_t>());
    const auto noise = pseudo(n, c["modulus"], c["seed"].get<uint64_t>() + 100);
    std::vector<float> x, y;
    for (size_t i = 0; i < n; ++i) {
      x.push_back(static_cast<float>(truth[i] / 5.0 + noise[i] / 10.0));
      y.push_back(static_cast<float>(truth[i] / 5.0));
    }
    EXPECT_NEAR(pearson(x, y), c["pearson"], kBound);
    EXPECT_NEAR(spearman(x, y), c["spearman"], kBound);
    EXPECT_NEAR(mean_squared_error(x, y) / c["mse"].get<double>(), 1, kBound);
  }
}

TEST(Metrics, UndefinedOnesAreAsInPython) {
  const std::vector<int32_t> zeros{0, 0, 0}, mixed{0, 1, 0};
  EXPECT_EQ(binary_f1(zeros, mixed), 0);
  EXPECT_EQ(matthews_correlation(zeros, mixed), 0);
  const std::vector<float> flat{1, 1, 1}, rising{1, 2, 3};
  EXPECT_TRUE(std::isnan(pearson(flat, rising)));
  const std::vector<float> broken{1, std::nanf(""), 3};
  EXPECT_TRUE(std::isnan(spearman(broken, rising)));
  EXPECT_TRUE(std::isnan(spearman(rising, broken)));
  message_of(ErrorCode::kUsage, [&] { accuracy(zeros, std::vector<int32_t>{0}); });
  message_of(ErrorCode::kUsage, [] { pearson({}, {}); });
}

TEST(Metrics, GlueTasksReportTheirKeys) {
  const std::vector<int32_t> guess{0, 1, 1, 0}, labels{0, 1, 0, 0};
  const auto mrpc = glue_metrics(glue_task("mrpc"), guess, labels);
  ASSERT_EQ(mrpc.size(), 3u);
  EXPECT_EQ(mrpc[0], (std::pair<std::string, double>("accuracy", 0.75)));
  EXPECT_EQ(mrpc[1].first, "f1");
  EXPECT_EQ(mrpc[2].first, "combined_score");
  EXPECT_DOUBLE_EQ(mrpc[2].second, (0.75 + 2.0 / 3) / 2);
  EXPECT_EQ(glue_metrics(glue_task("cola"), guess, labels)[0].first, "matthews_correlation");
  const std::vector<float> x{1, 2, 3};
  EXPECT_EQ(glue_metrics(glue_task("stsb"), x, x).size(), 3u);
  message_of(ErrorCode::kUsage, [&] { glue_metrics(glue_task("stsb"), guess, labels); });
  message_of(ErrorCode::kUsage, [&] { glue_metrics(glue_task("mrpc"), x, x); });
}

TEST(SquadMetrics, NormalisesAnswers) {
  EXPECT_EQ(normalize_answer("  The  Cat's a-b, an\tO\xC3\x84 theme "), "cats ab oä theme");
  EXPECT_EQ(normalize_answer("a an the"), "");
  EXPECT_EQ(normalize_answer("x\xC2\xA0the\xE3\x80\x80y"), "x y");  // no-break and wide space
  EXPECT_EQ(normalize_answer("\xCE\xA3\xCE\x91\xCE\xA3"), "\xCF\x83\xCE\xB1\xCF\x82");  // sigma, final sigma
  EXPECT_EQ(normalize_answer("\xE2\x80\x9Cthe\xE2\x80\x9D"), "\xE2\x80\x9C \xE2\x80\x9D");
}

SquadDataset toy_questions() {
  return squad_from_json(parse_json(R"({"data": [
    {"id": "1", "context": "the red fox ran", "question": "q", "answers": {"text": ["red fox", "fox"], "answer_start": [4, 8]}},
    {"id": "2", "context": "the red fox ran", "question": "q", "answers": {"text": [], "answer_start": []}},
    {"id": "3", "context": "the red fox ran", "question": "q", "answers": {"text": ["ran"], "answer_start": [12]}}]})",
                                    "toy_questions"),
                         "toy_questions");
}

double value_of(const MetricValues& values, const std::string& key) {
  for (const auto& [name, value] : values)
    if (name == key) return value;
  ADD_FAILURE() << "no " << key;
  return -1;
}

TEST(SquadMetrics, VersionTwoHasThirteenKeys) {
  // 1: half right (F1 of {a red ball} against {red fox}: 1 word of 2 and 2), 2: wrongly answered, 3: left out
  const auto v =
      squad_v2_metrics(toy_questions(), std::vector<SquadPrediction>{{"a red ball"}, {"fox"}, {"", false}});
  ASSERT_EQ(v.size(), 13u);
  EXPECT_DOUBLE_EQ(value_of(v, "exact"), 0);
  EXPECT_DOUBLE_EQ(value_of(v, "f1"), 50.0 / 3);
  EXPECT_EQ(value_of(v, "total"), 3);
  EXPECT_DOUBLE_EQ(value_of(v, "HasAns_f1"), 25);
  EXPECT_EQ(value_of(v, "HasAns_total"), 2);
  EXPECT_EQ(value_of(v, "NoAns_exact"), 0);
  // Nothing answered would score 1 of 3; with the first answer 1.5, then the wrong one takes 1 away.
  EXPECT_DOUBLE_EQ(value_of(v, "best_exact"), 100.0 / 3);
  EXPECT_DOUBLE_EQ(value_of(v, "best_f1"), 50);
  EXPECT_EQ(value_of(v, "best_f1_thresh"), 0);
  const auto right =
      squad_v2_metrics(toy_questions(), std::vector<SquadPrediction>{{"fox"}, {""}, {"The ran."}});
  EXPECT_DOUBLE_EQ(value_of(right, "exact"), 100);
  EXPECT_DOUBLE_EQ(value_of(right, "NoAns_f1"), 100);
}

/// One question with these answers, as JSON.
SquadDataset asked(const std::string& answers) {
  const std::string row =
      R"([{"id": "1", "context": "the red fox", "question": "q", "answers": )" + answers + "}]";
  return squad_from_json(parse_json(row, "asked"), "asked");
}

TEST(SquadMetrics, WhatNormalisesToNothingIsAnAnswerInVersionOneAlone) {
  const std::vector<SquadPrediction> article{{"a"}}, nothing{{""}};
  const SquadDataset the = asked(R"({"text": ["the"], "answer_start": [0]})");
  const auto first = squad_v1_metrics(the, article);
  EXPECT_EQ(value_of(first, "exact_match"), 100);
  EXPECT_EQ(value_of(first, "f1"), 0);
  EXPECT_EQ(value_of(squad_v2_metrics(the, article), "f1"), 100);
  const SquadDataset both = asked(R"({"text": ["the", "red"], "answer_start": [0, 4]})");
  EXPECT_EQ(value_of(squad_v1_metrics(both, nothing), "exact_match"), 100);
  EXPECT_EQ(value_of(squad_v2_metrics(both, nothing), "exact"), 0);
}

TEST(SquadMetrics, WithoutAnAnswerableQuestionThereAreNoKeysOfThose) {
  const SquadDataset none = asked(R"({"text": [], "answer_start": []})");
  const auto v = squad_v2_metrics(none, std::vector<SquadPrediction>{{""}});
  EXPECT_EQ(v.size(), 10u);
  EXPECT_EQ(value_of(v, "NoAns_exact"), 100);
}

TEST(SquadMetrics, PublishedPredictionsScoreAsPublished) {
  LATHE_NEEDS_DATA("squad/dev-v1.1-a.json");
  const std::string folder = test_data_dir() + "/squad/";
  const SquadDataset data = read_squad({folder + "dev-v1.1-a.json"});
  ASSERT_EQ(data.examples.size(), 5696u);
  struct Case {
    const char* file;
    double exact, f1;
  };
  for (const Case& c : {Case{"predictions-logistic-regression-a.json", 40.4143, 51.1296},
                        Case{"predictions-bert-ensemble-a.json", 86.3237, 92.3098}}) {
    const auto answers = read_json(real_file_system(), folder + c.file);
    std::vector<SquadPrediction> predictions;
    for (const auto& example : data.examples)
      predictions.push_back({answers.value(example.id, ""), answers.contains(example.id)});
    const auto v = squad_v1_metrics(data, predictions);
    EXPECT_NEAR(value_of(v, "exact_match"), c.exact, 5.1e-5);  // four decimals are published
    EXPECT_NEAR(value_of(v, "f1"), c.f1, 5.1e-5);
  }
}

}  // namespace
}  // namespace lathe
