#include "lathe/data/words/word_samples.h"

#include <gtest/gtest.h>

#include <numeric>

#include "lathe/data/golden_testing.h"

namespace lathe {
namespace {

using Ids = std::vector<int32_t>;

Tokenizer small_pieces(const char* config = "{}") {
  const std::vector<NamedFile> files{{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##b\n"},
                                     {"tokenizer_config.json", config}};
  return Tokenizer::from_files(files, "small");
}

const TagLabels kTagsOfSamples({"O", "B-X", "I-X", "B-Y"});

WordTable two_sentences() {
  WordTable table;
  table.words = {{"aa", "b", "\u200b", "baa"}, {}, {"a", "b", "a", "b", "a", "b", "a"}};
  table.lines = {1, 6, 7};
  return table;
}
const TagIds kIdsOfSamples = {{1, 0, 2, 3}, {}, {0, 1, 2, 3, 0, 1, 2}};

LabelledSentences labelled_by(const Tokenizer& tokenizer, const TagIds& ids,
                              const WordLabelOptions& options) {
  ThreadPool pool(2);
  return label_sentences(tokenizer, two_sentences(), ids, kTagsOfSamples, options, pool);
}

TEST(WordSamples, ASampleForEachSentenceWithLabelsForItsTokens) {
  const LabelledSentences sentences = labelled_by(small_pieces(), kIdsOfSamples, {});
  const TokenizedDataset data = word_samples(sentences, small_pieces());
  EXPECT_EQ(data.begins, (std::vector<int64_t>{0, 8, 10, 19}));
  const Tensor* labels = data.tensors.find("labels");
  ASSERT_NE(labels, nullptr);
  EXPECT_EQ(labels->extent, Extent::kToken);
  EXPECT_EQ(data.tensors.ints("labels"), (Ids{-100, 1, -100, 0, 3, -100, -100, -100, -100, -100,  //
                                              -100, 0, 1, 2, 3, 0, 1, 2, -100}));
  const auto scored = scored_tokens(sentences);
  EXPECT_EQ(wanted_tags(scored), (TagIds{{1, 0, 3}, {}, {0, 1, 2, 3, 0, 1, 2}}));
  EXPECT_EQ(scored[0][2].word, 3);
  Ids best(19);
  std::iota(best.begin(), best.end(), 0);
  EXPECT_EQ(found_tags(scored, best), (TagIds{{1, 3, 4}, {}, {11, 12, 13, 14, 15, 16, 17}}));
}

TEST(WordSamples, AWordOfSeveralWindowsCountsOnceInItsPlace) {
  for (const char* side : {"left", "right"}) {
    const Tokenizer tokenizer = small_pieces(fmt::format(R"({{"truncation_side": "{}"}})", side).c_str());
    for (const bool tags : {false, true}) {
      const LabelledSentences sentences =
          labelled_by(tokenizer, tags ? kIdsOfSamples : TagIds{}, {.max_length = 6, .stride = 2});
      const auto scored = scored_tokens(sentences);
      Ids words;
      for (const LabelledToken& token : scored[2]) words.push_back(token.word);
      EXPECT_EQ(words, (Ids{0, 1, 2, 3, 4, 5, 6})) << side;
      if (tags) {
        EXPECT_EQ(wanted_tags(scored)[2], kIdsOfSamples[2]);
      }
      const TokenizedDataset data = word_samples(sentences, tokenizer);
      EXPECT_EQ(data.tensors.find("labels") != nullptr, tags);
      for (const LabelledToken& token : scored[2])
        EXPECT_EQ(tags ? data.tensors.ints("labels")[static_cast<size_t>(token.token)] : kNoLabel,
                  token.label);
    }
  }
}

TEST(WordSamples, AllTokensOfAWordCountUnderLabelAllTokens) {
  const auto scored = scored_tokens(labelled_by(small_pieces(), kIdsOfSamples, {.label_all_tokens = true}));
  EXPECT_EQ(wanted_tags(scored)[0], (Ids{1, 2, 0, 3, 3, 3}));
}

}  // namespace
}  // namespace lathe
