#include "lathe/data/words/word_labels.h"

#include <gtest/gtest.h>

#include "lathe/data/golden_testing.h"
#include "lathe/data/test_data.h"

namespace lathe {
namespace {

using Ids = std::vector<int32_t>;

Tokenizer short_words(const char* config = "{}") {
  const std::vector<NamedFile> files{{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##b\n"},
                                     {"tokenizer_config.json", config}};
  return Tokenizer::from_files(files, "small");
}

const TagLabels kFour({"O", "B-X", "I-X", "B-Y"});
const Values kSentence = {"aa", "b", "\u200b", "baa"};  // tokens: 2, 1, 0, 3
const Ids kSentenceIds = {1, 0, 2, 3};

TEST(WordLabels, FirstTokenOfAWordOnly) {
  const auto s = label_words(short_words(), kSentence, kSentenceIds, kFour, {});
  ASSERT_EQ(s.windows.size(), 1u);
  EXPECT_EQ(s.windows[0].labels, (Ids{-100, 1, -100, 0, 3, -100, -100, -100}));
  EXPECT_EQ(s.windows[0].answers, (Ids{1, 3, 4}));
  EXPECT_EQ(s.cut_words, 0);
  EXPECT_EQ(s.silent_words, 1);
  EXPECT_EQ(s.answers(4, std::vector<Ids>{{9, 5, 9, 6, 7, 9, 9, 9}}), (Ids{5, 6, -1, 7}));
}

TEST(WordLabels, AllTokensWithInnerLabels) {
  const auto s = label_words(short_words(), kSentence, kSentenceIds, kFour, {.label_all_tokens = true});
  EXPECT_EQ(s.windows[0].labels, (Ids{-100, 1, 2, 0, 3, 3, 3, -100}));
  EXPECT_EQ(s.windows[0].answers, (Ids{1, 3, 4}));
}

TEST(WordLabels, CutWordsAreCounted) {
  const auto s = label_words(short_words(), kSentence, kSentenceIds, kFour, {.max_length = 5});
  EXPECT_EQ(s.windows[0].labels, (Ids{-100, 1, -100, 0, -100}));
  EXPECT_EQ(s.cut_words, 1);
  EXPECT_EQ(s.silent_words, 1);
  // A word that loses only its last tokens keeps its label.
  EXPECT_EQ(label_words(short_words(), kSentence, kSentenceIds, kFour, {.max_length = 6}).cut_words, 0);
}

TEST(WordLabels, CutOnTheLeftTheFirstTokenThatIsLeftHasTheLabel) {
  const auto s = label_words(short_words(R"({"truncation_side": "left"})"), kSentence, kSentenceIds, kFour,
                             {.max_length = 7});
  EXPECT_EQ(s.windows[0].labels, (Ids{-100, 1, 0, 3, -100, -100, -100}));
  EXPECT_EQ(s.cut_words, 0);
}

TEST(WordLabels, WithoutTags) {
  const auto s = label_words(short_words(), kSentence, {}, TagLabels(), {.max_length = 5});
  EXPECT_TRUE(s.windows[0].labels.empty());
  EXPECT_EQ(s.windows[0].answers, (Ids{1, 3}));
}

TEST(WordLabels, EachWordIsAnsweredWhereItHasMostContext) {
  const Values words = {"a", "b", "a", "b", "a", "b", "a"};
  const Ids ids = {0, 1, 2, 3, 0, 1, 2};
  const auto s = label_words(short_words(), words, ids, kFour, {.max_length = 6, .stride = 2});
  ASSERT_EQ(s.windows.size(), 3u);  // words 0-3, 2-5, 4-6
  EXPECT_EQ(s.windows[0].labels, (Ids{-100, 0, 1, 2, -100, -100}));
  EXPECT_EQ(s.windows[1].labels, (Ids{-100, -100, 3, 0, -100, -100}));
  EXPECT_EQ(s.windows[2].labels, (Ids{-100, -100, 1, 2, -100}));
  EXPECT_EQ(s.windows[1].answers, (Ids{2, 3}));
  EXPECT_EQ(s.cut_words, 0);
  EXPECT_EQ(
      s.answers(7, std::vector<Ids>{{0, 1, 2, 3, 4, 5}, {10, 11, 12, 13, 14, 15}, {20, 21, 22, 23, 24}}),
      (Ids{1, 2, 3, 12, 13, 22, 23}));
}

TEST(WordLabels, WindowsOfEveryShapeAnswerForEachWordOnce) {
  const Values words = {"a", "bbbbbbbbbb", "", "ab", "a", "aaa", "b", "ba", "abab", "a"};
  const Ids ids = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1};
  for (const char* side : {"left", "right"}) {
    const Tokenizer t = short_words(fmt::format(R"({{"truncation_side": "{}"}})", side).c_str());
    for (int length = 3; length < 30; ++length)
      for (int stride = 0; stride < length - 2; ++stride)
        for (const bool all : {false, true}) {
          const auto s = label_words(t, words, ids, kFour, {length, all, stride});
          Ids answered(words.size()), labelled(words.size());
          for (const LabelledWindow& window : s.windows) {
            ASSERT_LE(window.tokens.size(), static_cast<size_t>(length));
            for (const int32_t token : window.answers) {
              const auto word = static_cast<size_t>(window.tokens.word_ids[static_cast<size_t>(token)]);
              ++answered[word];
              EXPECT_EQ(window.labels[static_cast<size_t>(token)], ids[word]);
              EXPECT_EQ(window.tokens.offsets[static_cast<size_t>(token)][0], 0);  // its first token
            }
            for (size_t i = 0; i < window.tokens.size(); ++i)
              if (window.labels[i] >= 0 && window.tokens.offsets[i][0] == 0)
                ++labelled[static_cast<size_t>(window.tokens.word_ids[i])];
          }
          EXPECT_EQ(answered, (Ids{1, 1, 0, 1, 1, 1, 1, 1, 1, 1})) << side << length << " " << stride;
          EXPECT_EQ(labelled, answered);
          EXPECT_EQ(s.cut_words, 0);
          EXPECT_EQ(s.silent_words, 1);
        }
  }
}

TEST(WordLabels, RefusesAStrideWithoutProgress) {
  const auto refused = [](int stride) {
    return message_of(ErrorCode::kUsage, [&] {
      label_words(short_words(), kSentence, kSentenceIds, kFour, {.max_length = 6, .stride = stride});
    });
  };
  EXPECT_EQ(refused(4),
            "stride 4 with samples of 6 tokens, 2 of them special: found no progress from window to window, "
            "expected a "
            "stride from 0 to 3: lower --stride or raise --max_seq_length");
  EXPECT_TRUE(contains(refused(-1), "stride -1 with"));
}

TEST(WordLabels, ThreadsMakeNoDifference) {
  WordTable table;
  TagIds ids;
  for (int i = 0; i < 50; ++i) {
    table.words.push_back(Values(static_cast<size_t>(i % 7), "ab"));
    ids.emplace_back(table.words.back().size(), 1);
  }
  const auto labels_with = [&](int threads) {
    ThreadPool pool(threads);
    const auto all = label_sentences(short_words(), table, ids, kFour, {.max_length = 6}, pool);
    EXPECT_EQ(all.sentences.size(), 50u);
    EXPECT_EQ(all.words, 147);
    EXPECT_EQ(all.cut_words, 7 * (1 + 2 + 3 + 4));
    EXPECT_EQ(all.cut_sentences, 28);
    EXPECT_EQ(all.first_cut, 3u);
    std::vector<Ids> out;
    for (const auto& sentence : all.sentences) out.push_back(sentence.windows[0].labels);
    return out;
  };
  EXPECT_EQ(labels_with(1), labels_with(3));
}

TEST(WordLabels, RunNerOnPublishedSets) {
  ThreadPool pool(2);
  for (const auto& wanted : golden("word_labels.json")) {
    const std::string file = wanted["file"], vocabulary = wanted["vocabulary"];
    LATHE_NEEDS_DATA(file);
    LATHE_NEEDS_DATA("vocab/" + vocabulary);
    const WordTable table = read_words({test_data_dir() + "/" + file});
    const TagLabels labels = choose_tag_labels(table, {});
    const TagIds ids = tag_ids(table, labels);
    std::ifstream in(test_data_dir() + "/vocab/" + vocabulary + "/vocab.txt");
    const std::vector<NamedFile> files{{"vocab.txt", {std::istreambuf_iterator<char>(in), {}}}};
    const auto all = label_sentences(Tokenizer::from_files(files, vocabulary), table, ids, labels,
                                     {wanted["max_seq_length"], wanted["label_all_tokens"]}, pool);
    EXPECT_EQ(nlohmann::json(labels.names()), wanted["labels"]);
    Fnv64 hash;
    for (const LabelledSentence& sentence : all.sentences) {
      hash.add(Ids{static_cast<int32_t>(sentence.windows[0].tokens.size())});
      hash.add(sentence.windows[0].tokens.ids);
      hash.add(sentence.windows[0].labels);
    }
    EXPECT_EQ(hash.hex(), wanted["fnv64"].get<std::string>()) << wanted;
    EXPECT_EQ(all.words - all.cut_words - all.silent_words, wanted["labelled_words"]) << wanted;
  }
}

}  // namespace
}  // namespace lathe
