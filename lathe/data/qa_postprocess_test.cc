#include "lathe/data/qa_postprocess.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lathe/data/golden_testing.h"
#include "lathe/data/test_data.h"
#include "lathe/text/text.h"
#include "lathe/text/unicode.h"

namespace lathe {
namespace {

// What tools/make_squad_goldens.py makes of its contexts: windows of 14 words and logits from its generator.
struct Case {
  SquadDataset data;
  QaFeatures features;
  std::vector<float> start, end;
};

void add_logits(size_t count, uint64_t seed, std::vector<float>& out) {
  uint64_t state = seed;
  for (size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    out.push_back(static_cast<float>(static_cast<double>(state >> 40) * 0x1p-20 - 8));
  }
}

void add_question(const std::string& context, Case& c) {
  const auto index = static_cast<int32_t>(c.data.examples.size());
  c.data.contexts.push_back(context);
  c.data.examples.push_back(
      {.id = "q-" + std::to_string(index), .question = "q", .context = index, .answers = {}});
  std::vector<std::array<int32_t, 2>> words;
  int32_t at = 0;
  for (const auto word : split_words(context)) {
    const auto length = static_cast<int32_t>(unicode::length(word));
    words.push_back({at, at + length});
    at += length + 1;
  }
  for (size_t begin = 0;; begin += 9) {
    const size_t end = std::min(begin + 14, words.size());
    c.features.offsets.insert(c.features.offsets.end(), 4, {-1, -1});
    c.features.offsets.insert(c.features.offsets.end(), words.begin() + static_cast<long>(begin),
                              words.begin() + static_cast<long>(end));
    c.features.offsets.push_back({-1, -1});
    c.features.example.push_back(index);
    c.features.tokens.begins.push_back(static_cast<int64_t>(c.features.offsets.size()));
    const uint64_t number = c.features.example.size();
    add_logits(end - begin + 5, 2 * number - 1, c.start);
    add_logits(end - begin + 5, 2 * number, c.end);
    if (end == words.size()) return;
  }
}

Case make_case(const std::vector<std::string>& contexts) {
  Case c;
  for (const auto& context : contexts) add_question(context, c);
  return c;
}

// numpy's float32 exp is within 3 units in the last place; the quotient adds the sum's own error.
constexpr double kProbabilityBound = 8 * 0x1p-23;

void expect_equal_nbest(const std::string& found, const std::string& wanted) {
  using Json = nlohmann::ordered_json;
  const Json f = Json::parse(found), w = Json::parse(wanted);
  ASSERT_EQ(f.size(), w.size());
  for (const auto& [id, list] : w.items()) {
    ASSERT_EQ(f[id].size(), list.size()) << id;
    for (size_t k = 0; k < list.size(); ++k) {
      Json a = f[id][k], b = list[k];
      const double p = a["probability"], q = b["probability"];
      EXPECT_NEAR(p, q, kProbabilityBound * q) << id << " " << k;
      a["probability"] = b["probability"] = 0;
      EXPECT_EQ(a.dump(), b.dump()) << id << " " << k;  // the order of the keys too
    }
  }
}

TEST(PostprocessQa, AnswersAsRunQa) {
  const auto stored = golden("qa_answers.json");
  const Case c = make_case(stored["contexts"].get<std::vector<std::string>>());
  for (const auto& run : stored["runs"]) {
    const QaPostprocessOptions options{.n_best_size = run["n_best_size"],
                                       .max_answer_length = run["max_answer_length"],
                                       .version_2_with_negative = run["version_2"],
                                       .null_score_diff_threshold = run["threshold"]};
    const QaPredictions p = postprocess_qa(c.data, c.features, c.start, c.end, options);
    EXPECT_EQ(predictions_json(c.data, p), run["files"]["eval_predictions"].get<std::string>());
    expect_equal_nbest(nbest_json(c.data, p), run["files"]["eval_nbest_predictions"]);
    if (run["version_2"]) {
      EXPECT_EQ(null_odds_json(c.data, p), run["files"]["eval_null_odds"].get<std::string>());
    }
  }
}

TEST(PostprocessQa, FileIsLaidOutAsPythonDoes) {
  Case c = make_case({"x"});
  std::fill(c.start.begin(), c.start.end(), 0.5f);
  std::fill(c.end.begin(), c.end.end(), 1e-5f);
  const QaPredictions p = postprocess_qa(c.data, c.features, c.start, c.end, {});
  EXPECT_EQ(nbest_json(c.data, p),
            "{\n    \"q-0\": [\n        {\n            \"start_logit\": 0.5,\n            \"end_logit\": "
            "9.999999747378752e-06,\n            \"text\": \"x\",\n            \"probability\": 1.0\n        "
            "}\n    "
            "]\n}\n");
}

TEST(PostprocessQa, WithoutAnyAnswerItSaysEmpty) {
  Case c = make_case({"x y"});
  for (auto& offset : c.features.offsets) offset = {-1, -1};
  const QaPredictions v1 = postprocess_qa(c.data, c.features, c.start, c.end, {});
  EXPECT_EQ(v1.answers[0].text, "empty");
  ASSERT_EQ(v1.nbest[0].size(), 1u);
  EXPECT_EQ(v1.nbest[0][0].probability, 1);
  const QaPredictions v2 =
      postprocess_qa(c.data, c.features, c.start, c.end, {.version_2_with_negative = true});
  EXPECT_EQ(v2.nbest[0].size(), 2u);  // the made-up answer stands before the null answer
  EXPECT_EQ(v2.nbest[0][0].text, "empty");
}

TEST(PostprocessQa, QuestionsWithoutAWindowAreEmpty) {
  Case c = make_case({"x y", "z"});
  c.features.truncate(1);
  const auto tokens = static_cast<size_t>(c.features.tokens.tokens());
  c.features.offsets.resize(tokens);
  const auto p = postprocess_qa(c.data, c.features, std::span(c.start).first(tokens),
                                std::span(c.end).first(tokens), {});
  EXPECT_EQ(p.answers[1].text, "empty");
  const auto v2 = postprocess_qa(c.data, c.features, std::span(c.start).first(tokens),
                                 std::span(c.end).first(tokens), {.version_2_with_negative = true});
  ASSERT_EQ(v2.nbest[1].size(), 1u);
  EXPECT_EQ(v2.nbest[1][0].probability, 1);
  EXPECT_EQ(v2.null_odds[1], c.start[0] + c.end[0]);  // of the question before
}

TEST(PostprocessQa, OfEqualLogitsTheLastComeFirst) {
  Case c = make_case({"x y"});
  std::fill(c.start.begin(), c.start.end(), 0.5f);
  std::fill(c.end.begin(), c.end.end(), 0.5f);
  const QaPredictions p = postprocess_qa(c.data, c.features, c.start, c.end, {.n_best_size = 2});
  EXPECT_EQ(p.answers[0].text, "y");  // after it comes the separator
  const QaPredictions v2 =
      postprocess_qa(c.data, c.features, c.start, c.end, {.version_2_with_negative = true});
  EXPECT_EQ(v2.null_odds[0], 0);  // not above the threshold
  EXPECT_EQ(v2.answers[0].text, "y");
}

TEST(PostprocessQa, NonFiniteLogitsDoNotBreakIt) {
  Case c = make_case({"x y z", "u v w"});
  const QaFeatures& f = c.features;
  const size_t middle = 5;  // y; the first word is token 4
  c.start[middle] = std::nanf("");
  std::fill(c.end.begin(), c.end.end(), 0.5f);
  c.end[middle] = 1;
  EXPECT_EQ(postprocess_qa(c.data, f, c.start, c.end, {.n_best_size = 1}).answers[0].text, "y");
  std::fill(c.start.begin(), c.start.end(), std::nanf(""));
  for (const bool v2 : {false, true}) {
    const auto p = postprocess_qa(c.data, f, c.start, c.end, {.version_2_with_negative = v2});
    ASSERT_EQ(p.answers.size(), 2u);
    EXPECT_EQ(p.answers[0].text, "z");  // all scores are alike
    EXPECT_EQ(p.answers[1].text, "w");
  }
}

TEST(PostprocessQa, RefusesWhatDoesNotFit) {
  Case c = make_case({"x y"});
  c.start.pop_back();
  message_of(ErrorCode::kUsage, [&] { postprocess_qa(c.data, c.features, c.start, c.end, {}); });
  Case d = make_case({"x y"});
  message_of(ErrorCode::kUsage,
             [&] { postprocess_qa(d.data, d.features, d.start, d.end, {.n_best_size = 0}); });
}

}  // namespace
}  // namespace lathe
