#include "lathe/report/run_page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "lathe/core/test_folder.h"
#include "lathe/report/html_report.h"

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

TEST(RunPage, HoldsEverySectionAndNothingFromElsewhere) {
  const Findings findings{.data = "dev.csv",
                          .labels = {"yes", "<no>"},
                          .confusion = {{{3, 1}, {0, 0}}, {4, 0}},
                          .score = "loss",
                          .worst = {{"a <script>", "yes", "<no>", 2.5}}};
  const std::string page =
      run_page("a <run>", facts(), history(3), {{1, 1000, 2e9, {}}, {2, 1100, 2e9, 1e9}}, findings);
  for (const char* part :
       {"<title>a &lt;run&gt;</title>", "name=\"viewport\"", "prefers-color-scheme:dark", ">loss ",
        "eval_accuracy", "learning rate", "gradient norm", "tokens per second", "memory of the process",
        "memory of the device", "Confusion matrix", "--share:45%", "Worst examples", "a &lt;script&gt;",
        "cpu &amp; more", "lathe glue --run_name &#39;it&#39;\\&#39;&#39;s &lt;b&gt;&#39;", "learning_rate",
        "running: step 3 of 3"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const char* part : {"<script", "http", "src=", "href=", "url(", "@import"})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
}

TEST(RunPage, SaysThatItShowsTheFirstLabelsOnly) {
  Findings findings{.data = "dev.csv", .labels = {"a", "b", "c"}, .confusion = {{{1, 2}, {0, 0}}, {6, 0}}};
  const std::string page = run_page("r", facts(), {}, {}, findings);
  EXPECT_NE(page.find("what was predicted; the first 2 of 3."), std::string::npos);
  EXPECT_NE(page.find("--share:10%"), std::string::npos);  // one of six
  EXPECT_EQ(page.find("<th>c</th>"), std::string::npos);
  findings.labels.pop_back();
  EXPECT_NE(run_page("r", facts(), {}, {}, findings).find("what was predicted.<"), std::string::npos);
}

TEST(RunPage, ALongRunIsNoLargerThanAMediumOne) {
  const size_t medium = run_page("r", facts(), history(1000), {}, {}).size();
  EXPECT_LT(run_page("r", facts(), history(20'000), {}, {}).size(), medium + medium / 4);
}

TEST(RunPage, StandsWithoutAnyHistoryAndWithOddValues) {
  TrainerState state;
  state.max_steps = 3;
  EXPECT_NE(run_page("r", facts(), state, {}, {}).find("Nothing was logged yet."), std::string::npos);
  state.log_history = {Json{{"loss", std::nan("")}, {"step", 1}}, Json{{"loss", nullptr}, {"step", 2}},
                       Json{{"eval_f1", "text"}, {"step", 3}}, Json{{"loss", 1.0}}, Json::object()};
  const std::string page = run_page("r\xff\x01", facts(), state, {}, {});
  EXPECT_EQ(page.find('\xff'), std::string::npos);
  EXPECT_EQ(page.find('\x01'), std::string::npos);
}

TEST(RunPage, AnEvaluationAloneHasNoStepsAndNoCurves) {
  TrainerState state;
  state.log_history = {Json{{"eval_loss", 0.5}, {"step", 0}}};
  const std::string page = run_page("r", facts(), state, {}, {});
  EXPECT_NE(page.find("running; started 2026"), std::string::npos);
  EXPECT_NE(page.find("eval_loss"), std::string::npos);
  EXPECT_EQ(page.find("<svg"), std::string::npos);
}

/// A report whose clock and counts the test moves.
struct Bench {
  TestFolder folder;
  TrainerState state = history(1);
  double now = 0, evaluation = 0;
  double page_seconds = 0;  // that a page takes
  int64_t tokens = 0;
  std::string path = join_path(folder.path(), "report.html");
  std::vector<std::string> said;
  HtmlReport report{
      real_file_system(),
      path,
      "r",
      facts(),
      {[this]() -> const TrainerState& {
         now += page_seconds;
         return state;
       },
       [this] { return tokens; }, [this] { return evaluation; }, [] { return std::optional<double>(); },
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
