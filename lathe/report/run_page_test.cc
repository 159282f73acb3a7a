#include "lathe/report/run_page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>

#include "lathe/core/test_folder.h"
#include "lathe/report/html_report.h"
#include "lathe/report/label_findings.h"

namespace lathe {
namespace {

using Json = nlohmann::ordered_json;

RunFacts facts() {
  RunFacts f;
  f.words = {"lathe", "glue", "--run_name", "it's <b>"};
  f.settings["learning_rate"] = 2e-5;
  f.environment = {{"device", "cpu & more"}};
  f.started = "2026-01-01T00:00:00Z";
  return f;
}

TrainerState history(int64_t steps) {
  TrainerState state;
  state.global_step = state.max_steps = steps;
  for (int64_t i = 1; i <= steps; ++i) {
    state.log_history.push_back(Json{
        {"loss", 1.0 / static_cast<double>(i)}, {"grad_norm", i % 7}, {"learning_rate", 1e-5}, {"step", i}});
    state.log_history.push_back(Json{{"eval_loss", 0.5}, {"eval_accuracy", 0.75}, {"epoch", 1}, {"step", i}});
  }
  return state;
}

LossCurve losses(int64_t steps) {
  LossCurve curve;
  for (int64_t step = 1; step <= steps; ++step) curve.add(step, 1.0 / static_cast<double>(step));
  return curve;
}

TEST(RunPage, HoldsEverySectionAndNothingFromElsewhere) {
  const Findings findings{.data = "dev.csv",
                          .labels = {"yes", "<no>"},
                          .confusion = {{{3, 1}, {0, 0}}, {4, 0}},
                          .score = "loss",
                          .worst = {{"a <script>", "yes", "<no>", 2.5}}};
  const std::string page = run_page("a <run>", facts(), history(3), losses(3),
                                    {{1, 1000, 2e9, {}}, {2, 1100, 2e9, 1e9}}, findings);
  for (const char* part :
       {"<title>a &lt;run&gt;</title>",
        "name=\"viewport\"",
        "prefers-color-scheme:dark",
        ">loss ",
        "eval_accuracy",
        "learning rate",
        "gradient norm",
        "tokens per second",
        "memory of the process",
        "memory of the device",
        "Confusion matrix",
        "--share:45%",
        "<td class=\"zero\">0</td>",
        "Worst examples",
        "label / predicted",
        "<th class=\"text\">label</th><th class=\"text\">predicted</th>",
        "a &lt;script&gt;",
        "cpu &amp; more",
        "<span>--run_name</span> <span>&#39;it&#39;\\&#39;&#39;s</span> <span>&lt;b&gt;&#39;</span>",
        "learning_rate",
        "running: step 3 of 3"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const char* part : {"<script", "http", "src=", "href=", "url(", "@import"})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// --logging_steps 500, the default: a run of 345 updates has no loss line.
TEST(RunPage, TheLossOfEveryUpdateIsACurveWithoutLogLines) {
  TrainerState state;
  state.global_step = state.max_steps = 345;
  const std::string page = run_page("r", facts(), state, losses(345), {}, {});
  EXPECT_NE(page.find("training, means of 9 updates, faint: each update"), std::string::npos);
  EXPECT_EQ(count_of(page, "class=\"curve"), 2u) << page;
  const std::string few = run_page("r", facts(), state, losses(30), {}, {});
  EXPECT_EQ(count_of(few, "class=\"curve\""), 1u);
  EXPECT_EQ(few.find("faint: "), std::string::npos);
  const std::string many = run_page("r", facts(), state, losses(5000), {}, {});
  EXPECT_NE(many.find("training, means of 128 updates, faint: of 4"), std::string::npos);
}

TEST(RunPage, AMetricOfOneEvaluationHasNoChart) {
  TrainerState state = history(1);
  state.log_history.push_back(state.log_history.back());  // after the training the same once more
  EXPECT_EQ(run_page("r", facts(), state, losses(1), {}, {}).find("aria-label=\"eval_accuracy"),
            std::string::npos);
  EXPECT_NE(run_page("r", facts(), history(2), losses(2), {}, {}).find("aria-label=\"eval_accuracy"),
            std::string::npos);
}

TEST(RunPage, EvaluationsShowNoEmptyColumns) {
  TrainerState state;
  state.log_history = {Json{{"eval_f1", 50.0}, {"epoch", 1}, {"step", 2}}};  // of questions: without a loss
  const std::string page = run_page("r", facts(), state, {}, {}, {});
  EXPECT_EQ(page.find("eval_loss"), std::string::npos);
  EXPECT_NE(page.find("<tr><th>step</th><th>epoch</th><th>eval_f1</th></tr>"), std::string::npos) << page;
}

TEST(RunPage, TimesAreThoseOfTheMachine) {
  const char* before = getenv("TZ");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TZ", "XYZ-2", 1);
  tzset();
  EXPECT_EQ(local_time("2026-01-31T23:00:00Z"), "2026-02-01 01:00 XYZ");
  EXPECT_EQ(local_time("2026-01-31"), "2026-01-31");
  EXPECT_EQ(local_time(""), "");
  EXPECT_NE(run_page("r", facts(), {}, {}, {}, {}).find("started 2026-01-01 02:00 XYZ"), std::string::npos);
  before == nullptr ? unsetenv("TZ") : setenv("TZ", kept.c_str(), 1);
  tzset();
}

TEST(RunPage, LabelsHaveBalanceAndScores) {
  Findings findings{.data = "dev.csv", .labels = {"yes", "<no>", "never"}};
  findings.counts = {{.samples = 4, .predicted = 5, .right = 3, .trained = 30},
                     {.samples = 2, .predicted = 1, .right = 1, .trained = 10},
                     {}};
  findings.calibration = Calibration{.error = 0.0625, .from = 0.9, .to = 1, .samples = 50, .right = 0.84};
  const std::string page = run_page("r", facts(), {}, {}, {}, findings);
  for (const char* part :
       {"<td class=\"text\">yes</td><td>4</td><td>5</td><td>0.600</td><td>0.750</td><td>0.667</td>",
        "<td class=\"text\">&lt;no&gt;</td><td>2</td><td>1</td><td>1.000</td><td>0.500</td><td>0.667</td>",
        "<td class=\"text\">never</td><td>0</td><td>0</td><td>–</td><td>–</td><td>–</td>",
        "mean of the labels</td><td></td><td></td><td>0.800</td><td>0.625</td><td>0.667</td>", "30 · 75 %",
        "4 · 67 %", "5 · 83 %", "--share:1.000", "training data",
        "of the 50 predictions made with 90 to 100 % confidence, 84 % are right; the expected calibration "
        "error is 6.2 %"})
    EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
  for (LabelCounts& counts : findings.counts) counts.trained = 0;
  EXPECT_EQ(run_page("r", facts(), {}, {}, {}, findings).find("training data"), std::string::npos);
}

TEST(RunPage, OfManyLabelsTheMostFrequentAreCharted) {
  Findings findings{.data = "dev.csv"};
  for (int k = 0; k < 50; ++k) {
    findings.labels.push_back(fmt::format("label{}", k));
    findings.counts.push_back({.samples = k, .predicted = 1, .right = 0, .trained = 2 * k});
  }
  const std::string page = run_page("r", facts(), {}, {}, {}, findings);
  EXPECT_NE(page.find("the 20 most frequent of 50 labels"), std::string::npos);
  EXPECT_EQ(count_of(page, "<div>label"), 20u);
  EXPECT_NE(page.find("<div>label30<"), std::string::npos);
  EXPECT_EQ(page.find("<div>label29<"), std::string::npos);
}

TEST(RunPage, SaysThatItShowsTheFirstLabelsOnly) {
  Findings findings{.data = "dev.csv", .labels = {"a", "b", "c"}, .confusion = {{{1, 2}, {0, 0}}, {6, 0}}};
  const std::string page = run_page("r", facts(), {}, {}, {}, findings);
  EXPECT_NE(page.find("what was predicted; the first 2 of 3."), std::string::npos);
  EXPECT_NE(page.find("--share:10%"), std::string::npos);  // one of six
  EXPECT_EQ(page.find("<th>c</th>"), std::string::npos);
  findings.labels.pop_back();
  EXPECT_NE(run_page("r", facts(), {}, {}, {}, findings).find("what was predicted.<"), std::string::npos);
}

TEST(RunPage, ALongRunIsNoLargerThanAMediumOne) {
  const size_t medium = run_page("r", facts(), history(1000), losses(1000), {}, {}).size();
  EXPECT_LT(run_page("r", facts(), history(20'000), losses(20'000), {}, {}).size(), medium + medium / 4);
}

TEST(RunPage, StandsWithoutAnyHistoryAndWithOddValues) {
  TrainerState state;
  state.max_steps = 3;
  EXPECT_NE(run_page("r", facts(), state, {}, {}, {}).find("Nothing was logged yet."), std::string::npos);
  state.log_history = {Json{{"loss", std::nan("")}, {"step", 1}}, Json{{"loss", nullptr}, {"step", 2}},
                       Json{{"eval_f1", "text"}, {"step", 3}}, Json{{"loss", 1.0}}, Json::object()};
  const std::string page = run_page("r\xff\x01", facts(), state, {}, {}, {});
  EXPECT_EQ(page.find('\xff'), std::string::npos);
  EXPECT_EQ(page.find('\x01'), std::string::npos);
}

TEST(RunPage, AnEvaluationAloneHasNoStepsAndNoCurves) {
  TrainerState state;
  state.log_history = {Json{{"eval_loss", 0.5}, {"step", 0}}};
  const std::string page = run_page("r", facts(), state, {}, {}, {});
  EXPECT_NE(page.find("running; started 2026"), std::string::npos);
  EXPECT_NE(page.find("eval_loss"), std::string::npos);
  EXPECT_EQ(page.find("<svg"), std::string::npos);
}

/// A report whose clock and counts the test moves.
struct Bench {
  TestFolder folder;
  TrainerState state = history(1);
  LossCurve losses_of_run;
  double now = 0, evaluation = 0;
  double page_seconds = 0;  // that a page takes
  int64_t tokens = 0;
  std::string path = join_path(folder.path(), "report.html");
  std::vector<std::string> said;
  HtmlReport report{real_file_system(),
                    path,
                    "r",
                    facts(),
                    {[this]() -> const TrainerState& {
                       now += page_seconds;
                       return state;
                     },
                     [this]() -> const LossCurve& { return losses_of_run; }, [this] { return tokens; },
                     [this] { return evaluation; }, [] { return std::optional<double>(); },
                     [] { return std::optional<double>(); }, [this] { return now; }},
                    [this](LogLevel, const std::string& line) { said.push_back(line); }};
  std::string page() { return real_file_system().read(path).value(); }
};

TEST(HtmlReport, LogLinesWriteItNowAndThenEvaluationsAlways) {
  Bench b;
  b.report.record({{"loss", 1}, {"step", 1}});
  const std::string first = b.page();
  b.state.global_step = 2;
  b.now = 5;
  b.report.record({{"loss", 1}, {"step", 2}});
  EXPECT_EQ(b.page(), first);
  b.report.record({{"eval_loss", 1}, {"eval_runtime", 1.0}, {"step", 2}});
  EXPECT_NE(b.page().find("step 2 of"), std::string::npos);
  b.state.global_step = 3;
  b.now = 15;
  b.report.record({{"loss", 1}, {"step", 3}});
  EXPECT_NE(b.page().find("step 3 of"), std::string::npos);
  RunFacts end = facts();
  end.state = "finished";
  b.report.finish(end);
  EXPECT_NE(b.page().find("finished: step 3 of"), std::string::npos);
}

TEST(HtmlReport, UpdatesWriteItWithoutLogLines) {
  Bench b;
  b.report.step();
  const std::string first = b.page();
  b.state.global_step = 3;
  b.now = 9;
  b.report.step();
  EXPECT_EQ(b.page(), first);
  b.losses_of_run.add(1, 0.5);
  b.now = 10;
  b.report.step();
  EXPECT_NE(b.page().find("step 3 of"), std::string::npos);
  EXPECT_NE(b.page().find("aria-label=\"loss\""), std::string::npos);
}

TEST(HtmlReport, PagesTakeATwentiethOfTheTimeAtMost) {
  Bench b;
  b.page_seconds = 1;
  const auto is_written = [&](int64_t step, double now, const char* loss) {
    b.state.global_step = step;
    b.now = now;
    b.report.record({{loss, 1}, {"step", step}});
    return b.page().find(fmt::format("step {} of", step)) != std::string::npos;
  };
  EXPECT_TRUE(is_written(1, 0, "eval_loss"));  // until 1
  EXPECT_FALSE(is_written(2, 20, "eval_loss"));
  EXPECT_FALSE(is_written(3, 20, "loss"));
  EXPECT_TRUE(is_written(4, 21, "eval_loss"));
  EXPECT_FALSE(is_written(5, 22, "eval_loss"));
  b.report.finish(facts());
  EXPECT_NE(b.page().find("step 5 of"), std::string::npos);
}

/// All that they took, which is more than the runtime that they report.
TEST(HtmlReport, SpeedLeavesEvaluationsOut) {
  Bench b;
  b.now = 4, b.evaluation = 2, b.tokens = 1000;
  b.report.record({{"eval_loss", 1}, {"eval_runtime", 1.0}, {"step", 1}});
  b.report.record({{"loss", 1}, {"step", 1}});  // 1000 tokens in 4 − 2 seconds
  b.report.finish(facts());
  const std::string page = b.page();
  const size_t at = page.find("aria-label=\"tokens per second");
  ASSERT_NE(at, std::string::npos);
  EXPECT_NE(page.substr(at, 2000).find(">500<"), std::string::npos) << page.substr(at, 2000);
}

TEST(HtmlReport, AnErrorIsSaidOnce) {
  Bench b;
  real_file_system().create_directories(join_path(b.path, "in the way")).check();
  b.report.record({{"eval_loss", 1}});
  b.report.record({{"eval_loss", 1}});
  EXPECT_EQ(b.said.size(), 2u);  // where it is, and that it ends
}

TEST(Findings, CountAndOrder) {
  const std::array<int32_t, 5> labels = {0, 1, 1, 2, -1}, found = {0, 1, 0, 7, 0};
  EXPECT_EQ(confusion_of(labels, found, 3), (Confusion{{{1, 0, 0}, {1, 1, 0}, {0, 0, 0}}, {1, 2, 1}}));
  EXPECT_EQ(confusion_of(labels, found, 1), (Confusion{{{1}}, {1}}));
  const std::array<double, 4> badness = {1, std::nan(""), 3, 1};
  std::vector<double> order;
  for (const Example& e : worst_examples(badness, 3, [](size_t i) { return Example{"", "", "", double(i)}; }))
    order.push_back(e.score);
  EXPECT_EQ(order, (std::vector<double>{1, 2, 0}));
  const std::array<float, 2> logits = {1000, 999};
  EXPECT_NEAR(cross_entropy_of(logits, 1), 1 + std::log1p(std::exp(-1.0)), 1e-12);
}

TEST(Findings, CalibrationIsThatOfGuo) {
  // 0.95 three times, two right; 0.55 once, right; NaN is no prediction
  const std::array<double, 5> confidence = {0.95, 0.95, 0.55, 0.95, std::nan("")};
  const auto found = calibration_of(confidence, {true, false, true, true, true});
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->error, (std::abs(3 * 0.95 - 2) + std::abs(0.55 - 1)) / 4, 1e-12);
  EXPECT_EQ(found->samples, 3);
  EXPECT_NEAR(found->from, 0.9, 1e-12);
  EXPECT_NEAR(found->to, 1, 1e-12);
  EXPECT_NEAR(found->right, 2.0 / 3, 1e-12);
  const std::array<double, 1> sure = {1};
  EXPECT_EQ(calibration_of(sure, {true})->error, 0);
  EXPECT_FALSE(calibration_of({}, {}));
}

TokenizedDataset labelled(std::vector<int32_t> labels, std::vector<float> targets, int64_t samples) {
  TokenizedDataset data;
  if (!labels.empty()) data.tensors.ints("labels") = std::move(labels);
  if (!targets.empty()) data.tensors.floats("labels") = std::move(targets);
  data.begins.resize(static_cast<size_t>(samples) + 1);
  return data;
}

TEST(Findings, LabelsAreCountedOfClassesAndOfSeveralLabels) {
  const auto text = [](size_t) { return std::string("t"); };
  const TokenizedDataset data = labelled({0, 1, 1}, {}, 3), train = labelled({1, 1, 0, 1}, {}, 4);
  const Predictions p{.logits = {2, 0, 0, 3, 1, 0}, .columns = 2};
  const Findings of_classes = label_findings({LabelKind::kClasses, {"a", "b"}}, "d", data, p, text, &train);
  EXPECT_EQ(of_classes.counts, (std::vector<LabelCounts>{{1, 2, 1, 1}, {2, 1, 1, 3}}));
  EXPECT_TRUE(of_classes.calibration);
  const TokenizedDataset several = labelled({}, {1, 0, 1, 1}, 2);
  const Predictions scores{.logits = {1, 1, -1, 1}, .columns = 2};
  const Findings of_several =
      label_findings({LabelKind::kMultiLabel, {"a", "b"}}, "d", several, scores, text, nullptr);
  EXPECT_EQ(of_several.counts, (std::vector<LabelCounts>{{2, 1, 1, 0}, {1, 2, 1, 0}}));
  EXPECT_FALSE(of_several.calibration);
  EXPECT_TRUE(of_several.confusion.counts.empty());
}

TEST(RunFacts, SecretsAreHiddenAndTheFileReadsBack) {
  GlueArguments glue;
  const auto fields = bind(glue);
  EXPECT_EQ(without_secrets(fields, {"--token", "abc", "--task_name", "mrpc", "--token=abc", "--tok", "x"}),
            (std::vector<std::string>{"--token", "<token>", "--task_name", "mrpc", "--token=<token>", "--tok",
                                      "<token>"}));
  EXPECT_EQ(without_secrets(fields, {"--use_auth_token", "abc", "--use-auth-token=abc", "--use_auth_token",
                                     "--task_name", "mrpc"}),
            (std::vector<std::string>{"--use_auth_token", "<token>", "--use-auth-token=<token>",
                                      "--use_auth_token", "--task_name", "mrpc"}));
  TestFolder folder;
  write_run_file(real_file_system(), folder.path(), facts()).check();
  const RunFacts back = read_run_file(real_file_system(), folder.path());
  EXPECT_EQ(back.words, facts().words);
  EXPECT_EQ(back.settings, facts().settings);
  EXPECT_EQ(back.environment, facts().environment);
  EXPECT_EQ(back.command(), "lathe glue --run_name 'it'\\''s <b>'");
}

}  // namespace
}  // namespace lathe
