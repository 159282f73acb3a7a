#include "lathe/app/bench/bench_report.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <sstream>

#include "lathe/app/bench/bench.h"
#include "lathe/app/bench/bench_data.h"
#include "lathe/app/bench/bench_work.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/core/test_folder.h"
#include "lathe/data/test_data.h"
#include "lathe/engine/programs.h"
#include "lathe/engine/session.h"
#include "lathe/ops/attention.h"
#include "lathe/ops/linear.h"

namespace lathe {
namespace {

BenchReport report_of(const std::string& model) {
  BenchReport report{"step of " + model,
                     {"a note about " + model},
                     {{"model", "model"}, {"ms", "ms", 2}, {"flops_per_s", "GFLOP/s", 1, 1e-9}},
                     {},
                     {"speed", {"model", "batch"}, {"flops_per_s", "GFLOP/s", 1, 1e-9}}};
  for (const int batch : {1, 2}) {
    nlohmann::ordered_json row;
    row["bench"] = "step";
    row["model"] = model;
    row["batch"] = batch;
    row["ms"] = 12.5 * batch;
    row["flops_per_s"] = 2e9 * batch;
    row["percent_of_peak"] = nullptr;
    report.rows.push_back(row);
  }
  return report;
}

TEST(BenchReport, ACellIsALineWithoutControlCharacters) {
  const BenchReport report{
      "runs", {}, {{"run", "a\x1b"}, {"b", "b"}}, {{{"run", "one\n\x1b[31m"}, {"b", 1}}}, {}};
  EXPECT_EQ(terminal_text(report, 80, false), "runs\n\n  a\\x1b          b\n  one\\n\\x1b[31m  1\n\n");
  EXPECT_EQ(json_lines(report), "{\"run\": \"one\\n\\u001b[31m\", \"b\": 1}\n");
}

TEST(BenchReport, JsonLinesAreTheRowsInOrder) {
  const BenchReport report = report_of("bert");
  std::istringstream lines(json_lines(report));
  size_t i = 0;
  for (std::string line; std::getline(lines, line); ++i)
    EXPECT_EQ(nlohmann::ordered_json::parse(line), report.rows[i]);
  EXPECT_EQ(i, 2u);
  EXPECT_EQ(json_lines(report).substr(0, 28), R"({"bench": "step", "model": ")");
}

TEST(BenchReport, TableScalesRoundsAndAligns) {
  const std::string text = terminal_text(report_of("bert"), 40, false);
  EXPECT_NE(text.find("  model     ms  GFLOP/s\n"
                      "  bert   12.50      2.0\n"
                      "  bert   25.00      4.0\n"),
            std::string::npos)
      << text;
}

TEST(BenchReport, BarsAreInProportionAndFitTheTerminal) {
  const std::string text = terminal_text(report_of("bert"), 40, false);
  EXPECT_NE(text.find("\n  bert 1  2.0  ############\n"
                      "  bert 2  4.0  ########################\n"),
            std::string::npos)
      << text;
  EXPECT_NE(terminal_text(report_of("bert"), 40, true).find("████████████\n"), std::string::npos);
}

TEST(BenchReport, WhatWasNotMeasuredIsADash) {
  BenchReport report = report_of("bert");
  report.chart = {"none", {"model"}, {"percent_of_peak", "%"}};
  report.columns = {{"percent_of_peak", "%"}, {"no_such_key", "x"}};
  EXPECT_EQ(cell_text(report.rows[0], report.columns[0]), "-");
  EXPECT_EQ(cell_text(report.rows[0], report.columns[1]), "-");
  EXPECT_EQ(terminal_text(report, 80, false).find('#'), std::string::npos);  // and draws no bars
}

TEST(BenchReport, SixDigits) {
  EXPECT_EQ(six_digits(123.45678), 123.457);
  EXPECT_EQ(six_digits(1234567890.0), 1234570000.0);
  EXPECT_EQ(six_digits(0), 0);
}

TEST(BenchHtml, NeedsNothingButItselfAndRunsNothing) {
  const std::string page = html_page({report_of("bert"), report_of("other")}, "a machine");
  for (const char* outside :
       {"<script", "<link", "<img", "<iframe", "@import", "src=", "href=", "url(", "http"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  EXPECT_EQ(page.rfind("<!DOCTYPE html>", 0), 0u);
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("a machine"), std::string::npos);
  EXPECT_NE(page.find("step of other"), std::string::npos);
}

TEST(BenchHtml, TextsAreEscaped) {
  const std::string page = html_page({report_of("<b a=\"1\">&'")}, "<m>");
  EXPECT_EQ(page.find("<b a"), std::string::npos);
  EXPECT_EQ(page.find("<m>"), std::string::npos);
  EXPECT_NE(page.find("&lt;b a=&quot;1&quot;&gt;&amp;&#39;"), std::string::npos);
}

TEST(BenchWork, MedianAndLeast) {
  EXPECT_EQ(times_of({3, 1, 2}).median_ms, 2);
  EXPECT_EQ(times_of({4, 1, 2, 3}).median_ms, 2.5);
  EXPECT_EQ(times_of({4, 1, 2, 3}).min_ms, 1);
}

/// Goes on when it is told to.
struct HandClock {
  using duration = std::chrono::milliseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<HandClock>;
  static inline time_point time;
  static time_point now() { return time; }
};

/// Calls that take `each`: how many there were, and what was found.
std::pair<int, BenchTimes> timed_by_hand(std::chrono::milliseconds each) {
  int calls = 0;
  const BenchTimes times = time_calls<HandClock>(2, 10, [&] { ++calls, HandClock::time += each; });
  return {calls, times};
}

TEST(BenchWork, CallsAreTimedAfterAWarmUp) {
  const auto [calls, times] = timed_by_hand(std::chrono::milliseconds(5));
  EXPECT_EQ(calls, 12);
  EXPECT_EQ(times.calls, 10);
  EXPECT_EQ(times.median_ms, 5);
}

TEST(BenchWork, PatienceEndsBetweenCalls) {
  const auto [two_minutes, slow] = timed_by_hand(std::chrono::minutes(2));
  EXPECT_EQ(two_minutes, 2);  // one to warm up
  EXPECT_EQ(slow.calls, 1);
  EXPECT_EQ(slow.median_ms, 120000);
  const auto [eight_seconds, slower] = timed_by_hand(std::chrono::seconds(8));
  EXPECT_EQ(eight_seconds, 2 + 4);  // the last one begins after 24 s
  EXPECT_EQ(slower.calls, 4);
}

TEST(BenchWork, FewerCallsThanWantedAreNoted) {
  BenchReport report;
  for (const int calls : {10, 3, 10}) report.rows.push_back({{"calls", calls}});
  note_few_calls(report, 3);
  EXPECT_TRUE(report.notes.empty());
  note_few_calls(report, 10);
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_NE(report.notes[0].find("as few as 3 of 10 calls"), std::string::npos) << report.notes[0];
}

TEST(BenchWork, BatchHoldsItsRowsAndFillsUpWithZeros) {
  const std::array<int, 2> lengths = {3, 5};
  const PackedBatch batch = bench_batch(lengths, 100, true, {32, 32});
  EXPECT_EQ(batch.cu_seqlens, (std::vector<int32_t>{0, 3, 8}));
  EXPECT_EQ(batch.cls_index, (std::vector<int32_t>{0, 3}));
  EXPECT_EQ(std::as_const(batch).tensors.ints("labels"), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(batch.longest_row, 5);
  EXPECT_EQ(batch.tokens % 32, 0);
  EXPECT_EQ(batch.input_ids.size(), static_cast<size_t>(batch.tokens));
  EXPECT_EQ(batch.input_ids[1], 104729 % 100);
  EXPECT_EQ(batch.input_ids[3], 7919 % 100);
  EXPECT_EQ(batch.input_ids[8], 0);
  EXPECT_EQ(bench_batch(lengths, 100, false, {32, 32}).tensors.find("labels"), nullptr);
}

// BERT-base, 8 x 128: 85 million weights in layers, two operations each, and attention; after that of the
// last layer only each row's first token.
TEST(BenchWork, OperationsOfBertBase) {
  const std::vector<int> lengths(8, 128);
  const double before = 12.0 * 3 * 768 * 768 * 1024,
               behind = (768 * 768 + 2 * 768 * 3072) * (11.0 * 1024 + 8);
  const double attention = 12.0 * 8 * 2 * (2.0 * 128 * 128 * 768);
  EXPECT_EQ(forward_flops(ModelConfig(), lengths), 2 * (before + behind) + attention);
}

// What the ops of a forward pass count, which also has the head's products.
TEST(BenchWork, OperationsOfEachFamilyAreThoseOfItsProgram) {
  constexpr int kRows = 3, kLength = 64, kHidden = 48;
  const std::vector<int> lengths(kRows, kLength);
  for (const nlohmann::json& own : std::vector<nlohmann::json>{
           {{"model_type", "bert"}},
           {{"model_type", "distilbert"},
            {"dim", kHidden},
            {"n_layers", 3},
            {"n_heads", 4},
            {"hidden_dim", 80}},
           {{"model_type", "electra"}, {"embedding_size", 16}},
           {{"model_type", "modernbert"}, {"local_attention", 20}, {"global_attn_every_n_layers", 2}},
           {{"model_type", "modernbert"}, {"local_attention", 300}, {"classifier_pooling", "mean"}}}) {
    nlohmann::json json = {{"vocab_size", 100},        {"hidden_size", kHidden},  {"num_hidden_layers", 3},
                           {"num_attention_heads", 4}, {"intermediate_size", 80}, {"pad_token_id", 0}};
    json.update(own);
    SCOPED_TRACE(own.dump());
    const ModelConfig config = parse_model_config(json, "config.json");
    const AutoModel model = from_config(config, {single_label, {"a", "b"}}, std::nullopt);
    ProgramOptions options;
    options.targets = false;
    const auto program =
        build_program(*model.model, ProgramKind::kEvaluate, {kRows * kLength, kRows}, options);
    double counted = 0;
    for (const Node& node : program->nodes())
      if (node.op == &op::linear || node.op == &op::attention) counted += node.op->cost(node, *program).flops;
    const double found = forward_flops(config, lengths);
    EXPECT_LE(found, counted);
    EXPECT_GE(found, counted - 2 * kRows * kHidden * (kHidden + 2));
  }
}

TEST(BenchWork, NewWeightsScatterAsTheConfigurationSays) {
  ModelConfig config;
  config.vocab_size = 500, config.hidden_size = 64, config.num_hidden_layers = 1,
  config.num_attention_heads = 2;
  config.intermediate_size = 128, config.max_position_embeddings = 32;
  const AutoModel model = from_config(config, {single_label, {"a", "b"}}, std::nullopt);
  const auto backend = open_device("cpu", {1});
  Session session(*backend, *model.model, {});
  write_weights(session, model);
  const std::vector<float> words =
      session.parameters().read(model.model->find("bert.embeddings.word_embeddings.weight"));
  double sum = 0, squares = 0, neighbours = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    sum += words[i], squares += double{words[i]} * words[i];
    if (i > 0) neighbours += double{words[i]} * words[i - 1];
  }
  // Five standard errors of the mean, the variance (uniform: 4/5 of it squared) and the correlation.
  const double n = static_cast<double>(words.size()), variance = 0.02 * 0.02;
  EXPECT_LT(std::abs(sum / n), 5 * 0.02 / std::sqrt(n));
  EXPECT_LT(std::abs(squares / n / variance - 1), 5 * std::sqrt(0.8 / n));
  EXPECT_LT(std::abs(neighbours / n / variance), 5 / std::sqrt(n));
  const std::vector<float> scale =
      session.parameters().read(model.model->find("bert.embeddings.LayerNorm.weight"));
  EXPECT_EQ(scale, std::vector<float>(64, 1.0f));
  // They are one sequence, however many are drawn at a time.
  uint32_t number = 0;
  for (size_t i = 0; i < model.model->parameters().size(); ++i) {
    const nn::Parameter& p = model.model->parameters()[i];
    if (p.init != nn::Init::kNormal && p.init != nn::Init::kTruncated) continue;
    for (const float value : session.parameters().read(static_cast<int>(i))) {
      uint32_t x = ++number * 2654435761u;
      x = (x ^ (x >> 15)) * 2246822519u;
      const float factor = static_cast<float>(0.02 * std::sqrt(3.0) / 2147483648.0);
      ASSERT_EQ(value, factor * static_cast<float>(static_cast<int32_t>(x ^ (x >> 13)))) << p.name;
    }
  }
  EXPECT_GT(number, 2 * words.size());  // more than one draw holds
}

TEST(BenchWork, WrongNamesAreUsageErrors) {
  EXPECT_THROW(bench_dtype("fp8"), Error);
  BenchSettings settings;
  settings.device = "toaster";
  EXPECT_THROW(bench_devices(settings, false), Error);
  EXPECT_THROW(bench_model("no/such/folder", {"a", "b"}), Error);
}

TEST(BenchWork, AFolderNeedsNoTokenizerAndNoWeights) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  const std::string tiny = source_path("tests/golden/tiny_bert/classification");
  EXPECT_THROW(bench_model(folder.path(), {"a", "b"}), Error);
  for (const char* name : {"config.json", "model.safetensors"}) {
    fs.write_atomic(folder / name, fs.read(join_path(tiny, name)).value()).check();
    const AutoModel model = bench_model(folder.path(), {"a", "b"});
    EXPECT_EQ(model.checkpoint != nullptr, name == std::string("model.safetensors"));
    EXPECT_FALSE(model.tokenizer);
    EXPECT_EQ(model.config.hidden_size, bench_model(tiny, {"a", "b"}).config.hidden_size);
    EXPECT_THROW(bench_model(folder.path(), {"a", "b"}, {.weights = true, .tokenizer = true}), Error);
  }
}

TEST(BenchWork, AFolderOfWeightsThatAreNotWholeIsRefused) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  const std::string sharded = source_path("tests/golden/formats/sharded");
  const auto error = [&]() -> std::string {
    try {
      bench_model(folder.path(), {"a", "b"});
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  const std::string last = "model-00004-of-00004.safetensors";
  for (const std::string& name : fs.list(sharded).value())
    if (name != last) fs.write_atomic(folder / name, fs.read(join_path(sharded, name)).value()).check();
  EXPECT_NE(error().find(last + ": this shard is missing"), std::string::npos) << error();
  const std::string whole = fs.read(join_path(sharded, last)).value();
  fs.write_atomic(folder / last, whole.substr(0, whole.size() / 2)).check();
  EXPECT_NE(error().find(last + ": "), std::string::npos) << error();
  fs.write_atomic(folder / last, whole).check();
  EXPECT_EQ(error(), "no error");
}

TEST(BenchData, WithoutTrecTheQuestionsAreTheDemos) {
  const Questions questions = bench_questions("");
  EXPECT_EQ(questions.origin, "demo");
  EXPECT_EQ(questions.train.size(), 1000u);
  EXPECT_EQ(questions.heldout.size(), 452u);
  EXPECT_FALSE(read_trec("/no/such/folder"));
}

TEST(BenchData, TrecsRowsAreTheFirstAndTheLast) {
  const std::string folder = test_data_dir();
  const auto all = read_trec(folder);
  if (!all) GTEST_SKIP() << "needs trec/train_5500.label";
  const Questions questions = bench_questions(folder);
  EXPECT_EQ(questions.origin, "trec");
  EXPECT_EQ(questions.train.first.front(), all->first.front());
  EXPECT_EQ(questions.train.first.back(), all->first[999]);
  EXPECT_EQ(questions.heldout.first.back(), all->first.back());
  EXPECT_EQ(questions.heldout.size(), 452u);
  EXPECT_EQ(questions.train.label_set.num_labels(), 6);
  EXPECT_GT(bench_tokenizer(folder, questions).vocab_size(), 30000);
}

TEST(BenchReport, SaysWhereAFigureIsMoreThanThePeak) {
  BenchReport report;
  for (const nlohmann::ordered_json& percent : {nlohmann::ordered_json(102.9), nlohmann::ordered_json()}) {
    report.rows.push_back({{"percent_of_peak", percent}});
    note_more_than_peak(report);
    EXPECT_TRUE(report.notes.empty());
  }
  report.rows.push_back({{"percent_of_peak", 157.9}});
  note_more_than_peak(report);
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_NE(report.notes[0].find("more than the peak"), std::string::npos);
}

}  // namespace
}  // namespace lathe
