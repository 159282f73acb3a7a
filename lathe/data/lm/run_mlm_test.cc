// The batches of the traces in tests/golden/mlm, from the text files on: samples, order, masks.
#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <iterator>
#include <set>

#include "lathe/data/golden_testing.h"
#include "lathe/data/lm/mask_collator.h"
#include "lathe/data/lm/text_groups.h"
#include "lathe/data/sampler.h"
#include "lathe/data/test_data.h"

namespace lathe {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct MaskedBatch {
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::array<int32_t, 2>> labels;  // place among the tokens of all rows, label
};

class MlmRun {
 public:
  MlmRun(const std::string& family, bool groups)
      : tokenizer_(Tokenizer::load(source_path("tests/golden/mlm/") + family)),
        collator_(mask_rules(tokenizer_)),
        train_(samples("train", groups)),
        validation_(samples("validation", groups)),
        sampler_({.size = train_.size(), .batch_size = 4, .seed = 42}) {}

  /// The next batches of training, at most `count`, those of one epoch.
  std::vector<MaskedBatch> next(int count) {
    std::vector<MaskedBatch> out;
    while (static_cast<int>(out.size()) < count && (out.empty() || given_ < sampler_.batches_per_epoch())) {
      if (given_ == sampler_.batches_per_epoch()) start_epoch();
      while (drawn_ <= given_ + 1 && drawn_ < sampler_.batches_per_epoch()) {  // one ahead
        std::vector<int32_t> batch;
        sampler_.batch_of(0, epoch_, drawn_++, batch);
        ahead_.push_back(masked(train_, batch));
      }
      out.push_back(ahead_.front());
      ahead_.pop_front();
      ++given_;
    }
    return out;
  }

  std::vector<MaskedBatch> evaluate() {
    generator_.random63();
    std::vector<MaskedBatch> out;
    for (int32_t begin = 0; begin < validation_.size(); begin += 3) {
      std::vector<int32_t> batch;
      for (int32_t i = begin; i < std::min<int64_t>(begin + 3, validation_.size()); ++i) batch.push_back(i);
      out.push_back(masked(validation_, batch));
    }
    return out;
  }

 private:
  TextRows samples(const std::string& name, bool groups) {
    const std::string text = text_of(source_path("tests/golden/mlm/") + name + ".txt");
    ThreadPool pool(2);
    const auto lines = lines_of(text);
    return groups ? group_texts(tokenize_texts(lines, tokenizer_, 0, pool), 16)
                  : tokenize_texts(texts_with_words(lines), tokenizer_, 20, pool);
  }

  void start_epoch() {
    ++epoch_;
    given_ = drawn_ = 0;
    generator_.random63();
  }

  MaskedBatch masked(const TextRows& data, std::span<const int32_t> batch) {
    std::vector<int32_t> ids, begins{0};
    for (const int32_t i : batch) {
      ids.insert(ids.end(), data.row(i).begin(), data.row(i).end());
      begins.push_back(static_cast<int32_t>(ids.size()));
    }
    std::vector<int32_t> labels(ids.size());
    collator_.mask(ids, begins, generator_, labels);
    MaskedBatch out;
    for (size_t row = 0; row < batch.size(); ++row)
      out.ids.emplace_back(ids.begin() + begins[row], ids.begin() + begins[row + 1]);
    for (size_t i = 0; i < labels.size(); ++i)
      if (labels[i] != -100) out.labels.push_back({static_cast<int32_t>(i), labels[i]});
    return out;
  }

  Tokenizer tokenizer_;
  MaskCollator collator_;
  TextRows train_, validation_;
  Sampler sampler_;
  TorchGenerator generator_{42};
  std::deque<MaskedBatch> ahead_;
  int64_t epoch_ = -1, given_ = sampler_.batches_per_epoch(), drawn_ = given_;
};

void expect_batches(const std::vector<MaskedBatch>& batches, const nlohmann::json& wanted) {
  ASSERT_EQ(batches.size(), wanted.size());
  for (size_t i = 0; i < batches.size(); ++i) {
    EXPECT_EQ(batches[i].ids, wanted[i]["ids"].get<std::vector<std::vector<int32_t>>>());
    EXPECT_EQ(batches[i].labels, (wanted[i]["labels"].get<std::vector<std::array<int32_t, 2>>>()));
  }
}

void expect_trace(const std::string& family, const std::string& way, int updates, int accumulation,
                  const std::set<int>& evaluated) {
  SCOPED_TRACE(family + " " + way);
  const nlohmann::json trace = golden("../mlm/" + family + "/" + way + ".json");
  MlmRun run(family, way == "groups");
  int step = 0, evaluations = 0;
  const auto evaluate = [&] {
    expect_batches(run.evaluate(), trace.at("evaluation " + std::to_string(++evaluations))["batches"]);
  };
  for (int update = 1; update <= updates; ++update) {
    for (const MaskedBatch& batch : run.next(accumulation))
      expect_batches({batch}, nlohmann::json::array({trace.at("step " + std::to_string(++step))}));
    if (evaluated.contains(update)) evaluate();
  }
  evaluate();  // run_mlm's own, after training
  EXPECT_EQ(static_cast<size_t>(step), trace["losses"].size());
  EXPECT_FALSE(trace.contains("evaluation " + std::to_string(evaluations + 1)));
}

TEST(RunMlm, HasTheBatchesOfTheScript) {
  for (const std::string family : {"bert", "distilbert", "roberta", "xlm_roberta", "modernbert"})
    for (const std::string way : {"lines", "groups"}) expect_trace(family, way, 20, 1, {8, 16, 20});
  for (const std::string family : {"bert", "modernbert"}) expect_trace(family, "accumulated", 6, 3, {});
}

// A vocabulary of 30,522 and texts as people have them: every token of an epoch.
TEST(RunMlm, MasksWikitextAsTransformers) {
  LATHE_NEEDS_DATA("text/wikitext-2-raw/wiki.test.noblank.txt");
  LATHE_NEEDS_DATA("all-MiniLM-L6-v2/tokenizer.json");
  const Tokenizer tokenizer = Tokenizer::load(test_data_dir() + "/all-MiniLM-L6-v2");
  const std::string text = text_of(test_data_dir() + "/text/wikitext-2-raw/wiki.test.noblank.txt");
  ThreadPool pool(2);
  const std::vector<std::string_view> lines = lines_of(text);
  for (const bool groups : {true, false}) {
    const nlohmann::json wanted = golden("../mlm/groups.json", "wikitext")[groups ? "grouped" : "by_line"];
    TextRows rows = tokenize_texts(lines, tokenizer, groups ? 0 : 128, pool);
    if (groups) rows = group_texts(rows, 512);
    EXPECT_EQ(rows.size(), wanted["rows"].get<int64_t>());
    EXPECT_EQ(fnv64(rows.ids), wanted["ids"].get<std::string>());
    MaskCollator collator(mask_rules(tokenizer));
    TorchGenerator generator(7);
    std::vector<int32_t> labels(rows.ids.size());
    for (int64_t first = 0; first < rows.size(); first += 32) {
      const int64_t end = std::min<int64_t>(first + 32, rows.size());
      const auto begin = static_cast<size_t>(rows.begins[first]);
      const auto tokens = static_cast<size_t>(rows.begins[end]) - begin;
      std::vector<int32_t> begins;
      for (int64_t i = first; i <= end; ++i)
        begins.push_back(static_cast<int32_t>(rows.begins[i] - rows.begins[first]));
      collator.mask(std::span(rows.ids).subspan(begin, tokens), begins, generator,
                    std::span(labels).subspan(begin, tokens));
    }
    EXPECT_EQ(fnv64(rows.ids), wanted["masked_ids"].get<std::string>());
    EXPECT_EQ(fnv64(labels), wanted["labels"].get<std::string>());
  }
}

}  // namespace
}  // namespace lathe
