#include "lathe/data/demo/demo_questions.h"

#include <gtest/gtest.h>

#include <array>
#include <cctype>
#include <set>
#include <sstream>

#include "lathe/core/error.h"
#include "lathe/data/demo/demo_grammar.h"

namespace lathe {
namespace {

std::set<std::string> texts(const std::vector<DemoQuestion>& questions) {
  std::set<std::string> set;
  for (const DemoQuestion& question : questions) set.insert(question.text);
  return set;
}

std::set<std::string> lower_words(const std::vector<DemoQuestion>& questions) {
  std::set<std::string> words;
  for (const DemoQuestion& question : questions) {
    std::string text = question.text;
    for (char& c : text) c = std::isalpha(static_cast<unsigned char>(c)) ? static_cast<char>(c | 0x20) : ' ';
    std::istringstream stream(text);
    for (std::string word; stream >> word;) words.insert(word);
  }
  return words;
}

TEST(DemoQuestions, ArePureFunctionsOfCountAndSeed) {
  const auto train = demo_train(300, 42);
  EXPECT_EQ(train, demo_train(300, 42));
  EXPECT_NE(train, demo_train(300, 43));
  EXPECT_NE(train, demo_heldout(300, 42));
}

TEST(DemoQuestions, AreDifferentAndBalanced) {
  const auto train = demo_train(4002, 1);
  ASSERT_EQ(4002u, train.size());
  EXPECT_EQ(4002u, texts(train).size());
  std::array<int, 6> counts{};
  for (const DemoQuestion& question : train) ++counts.at(static_cast<size_t>(question.label));
  for (const int count : counts) EXPECT_EQ(667, count);
}

TEST(DemoQuestions, AreWellFormed) {
  for (const auto& questions : {demo_train(6000, 3), demo_heldout(3000, 3), demo_new_questions()}) {
    for (const DemoQuestion& question : questions) {
      EXPECT_EQ(std::string::npos, question.text.find('$')) << question.text;
      EXPECT_EQ(std::string::npos, question.text.find("  ")) << question.text;
      for (const char* wrong : {" a a", " a e", " a i", " a o", " a u"}) {
        EXPECT_EQ(std::string::npos, question.text.find(wrong)) << question.text;
      }
      EXPECT_TRUE(question.text.back() == '?' || question.text.back() == '.') << question.text;
    }
  }
}

TEST(DemoQuestions, HeldOutPartSharesNoTemplateAndNoQuestionWithTraining) {
  std::istringstream train(std::string{kDemoTrainTemplates}), heldout(std::string{kDemoHeldoutTemplates});
  std::set<std::string> lines;
  for (std::string line; std::getline(train, line);) lines.insert(line);
  int checked = 0;
  for (std::string line; std::getline(heldout, line);) {
    if (line.empty() || line[0] == '[') continue;
    EXPECT_FALSE(lines.contains(line)) << line;
    ++checked;
  }
  EXPECT_GT(checked, 50);
  const auto seen = texts(demo_train(12000, 5));
  for (const auto& questions : {demo_heldout(3000, 5), demo_new_questions()}) {
    for (const DemoQuestion& question : questions)
      EXPECT_FALSE(seen.contains(question.text)) << question.text;
  }
}

TEST(DemoQuestions, EveryHeldOutWordOccursInTraining) {
  const auto known = lower_words(demo_train(12000, 7));
  for (const std::string& word : lower_words(demo_heldout(6000, 7)))
    EXPECT_TRUE(known.contains(word)) << word;
}

TEST(DemoQuestions, MoreThanTheGrammarMakesIsAnError) {
  EXPECT_EQ(kMostDemoQuestions, demo_train(kMostDemoQuestions, 1).size());
  EXPECT_EQ(kMostDemoQuestions, demo_heldout(kMostDemoQuestions, 1).size());
  try {
    demo_heldout(kMostDemoQuestions + 1, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(ErrorCode::kUsage, error.code());
    EXPECT_NE(std::string::npos, std::string(error.what()).find("20001")) << error.what();
  }
}

TEST(DemoQuestions, FiveNewQuestionsOfFiveClasses) {
  std::set<int> labels;
  for (const DemoQuestion& question : demo_new_questions()) labels.insert(question.label);
  EXPECT_EQ(5u, demo_new_questions().size());
  EXPECT_EQ(5u, labels.size());
  EXPECT_LT(*labels.rbegin(), static_cast<int>(demo_labels().size()));
}

TEST(DemoVocabulary, HoldsEveryWordOnceAndBeginsWithTheSpecialTokens) {
  std::istringstream stream(demo_vocabulary());
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  const std::set<std::string> set(lines.begin(), lines.end());
  EXPECT_EQ(lines.size(), set.size()) << "a token stands there twice";
  EXPECT_EQ((std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}),
            std::vector<std::string>(lines.begin(), lines.begin() + 5));
  for (const char* token : {"?", ".", ",", "q", "##q", "7", "##7", "##ing"})
    EXPECT_TRUE(set.contains(token)) << token;
  for (const std::string& word : lower_words(demo_train(12000, 9))) EXPECT_TRUE(set.contains(word)) << word;
  EXPECT_LT(lines.size(), 1000u);
}

}  // namespace
}  // namespace lathe
