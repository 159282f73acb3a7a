#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lathe {

/// Questions in six classes, made by a small grammar of this project: the data of `lathe demo`.  The held-out
/// part comes from templates that training never sees, built from the same words.
struct DemoQuestion {
  std::string text;
  int label;  ///< position in demo_labels()
  bool operator==(const DemoQuestion&) const = default;
};

/// abbreviation, description, thing, person, place, number.
const std::vector<std::string>& demo_labels();

inline constexpr size_t kMostDemoQuestions = 20000;

/// n different questions, as many of each class as the grammar can make up to n / 6, in random order: a pure
/// function of (n, seed).  Errors: kUsage if n > kMostDemoQuestions.
std::vector<DemoQuestion> demo_train(size_t n, uint64_t seed);
/// The same from the held-out templates.
std::vector<DemoQuestion> demo_heldout(size_t n, uint64_t seed);

/// Five questions that neither part can contain.
std::vector<DemoQuestion> demo_new_questions();

/// The text of a vocab.txt (lower case) for these questions: special tokens, punctuation, digits and letters
/// by themselves and as continuation, common endings, then every word of the grammar.
std::string demo_vocabulary();

}  // namespace lathe
