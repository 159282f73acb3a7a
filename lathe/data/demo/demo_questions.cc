#include "lathe/data/demo/demo_questions.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/data/demo/demo_grammar.h"

namespace lathe {
namespace {

using Templates = std::array<std::vector<std::string>, 6>;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

struct Grammar {
  std::map<std::string, std::vector<std::string>, std::less<>> lexicon;
  Templates train, heldout;

  Grammar() : train(parse_templates(kDemoTrainTemplates)), heldout(parse_templates(kDemoHeldoutTemplates)) {
    parse_lexicon();
  }

  void parse_lexicon() {
    std::vector<std::string>* list = nullptr;
    for (std::string_view line : lines_of(kDemoLexicon)) {
      if (line[0] != ' ') {
        const size_t colon = line.find(':');
        list = &lexicon[std::string(line.substr(0, colon))];
        line.remove_prefix(colon + 1);
      }
      while (!line.empty()) {
        const size_t bar = std::min(line.find('|'), line.size());
        std::string_view entry = line.substr(0, bar);
        line.remove_prefix(std::min(bar + 1, line.size()));
        entry.remove_prefix(std::min(entry.find_first_not_of(' '), entry.size()));
        entry = entry.substr(0, entry.find_last_not_of(' ') + 1);
        if (!entry.empty()) list->emplace_back(entry);
      }
    }
  }

  static Templates parse_templates(std::string_view text) {
    Templates templates;
    const auto& labels = demo_labels();
    size_t current = 0;
    for (std::string_view line : lines_of(text)) {
      if (line[0] != '[') {
        templates[current].emplace_back(line);
        continue;
      }
      const auto label = std::find(labels.begin(), labels.end(), line.substr(1, line.size() - 2));
      if (label == labels.end()) fail(ErrorCode::kInternal, "demo grammar: no class {}", line);
      current = label - labels.begin();
    }
    return templates;
  }
};

const Grammar& grammar() {
  static const Grammar instance;
  return instance;
}

/// The standard fixes the engine's output but not the distributions', so these draws are made by hand.
size_t draw(std::mt19937_64& random, size_t n) { return random() % n; }

void fill(std::string_view text, std::mt19937_64& random, std::string& out) {
  while (!text.empty()) {
    const size_t dollar = std::min(text.find('$'), text.size());
    out += text.substr(0, dollar);
    text.remove_prefix(dollar);
    if (text.empty()) return;
    size_t end = 1;
    while (end < text.size() && is_letter(text[end])) ++end;
    const auto list = grammar().lexicon.find(text.substr(1, end - 1));
    if (list == grammar().lexicon.end())
      fail(ErrorCode::kInternal, "demo grammar: no list {}", text.substr(0, end));
    size_t choice;
    do {
      choice = draw(random, list->second.size());
    } while (out.find(list->second[choice]) != std::string::npos);  // no "between iron and iron"
    const std::string& entry = list->second[choice];
    if (out.ends_with(" a ") && std::string_view("aeiou").find(entry[0]) != std::string_view::npos) {
      out.back() = 'n';
      out += ' ';
    }
    fill(entry, random, out);
    text.remove_prefix(end);
  }
}

std::vector<DemoQuestion> generate(const Templates& templates, size_t n, uint64_t seed) {
  if (n > kMostDemoQuestions) {
    fail(ErrorCode::kUsage, "demo questions: found {} wanted, the grammar makes at most {}; ask for fewer", n,
         kMostDemoQuestions);
  }
  std::mt19937_64 random(seed);
  std::unordered_set<std::string> seen;
  std::vector<DemoQuestion> questions;
  // A class that brings nothing new so many times in a row counts as used up; the others go on.
  constexpr int kPatience = 1000;
  std::vector<int> open(templates.size());
  std::iota(open.begin(), open.end(), 0);
  while (questions.size() < n && !open.empty()) {
    for (size_t i = 0; i < open.size() && questions.size() < n;) {
      const auto& choices = templates[open[i]];
      int tries = 0;
      for (; tries < kPatience; ++tries) {
        std::string text;
        fill(choices[draw(random, choices.size())], random, text);
        if (!seen.insert(text).second) continue;
        questions.push_back({std::move(text), open[i]});
        break;
      }
      if (tries == kPatience) {
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }
  for (size_t i = questions.size(); i > 1; --i) std::swap(questions[i - 1], questions[draw(random, i)]);
  return questions;
}

/// The words of a text in lower case; $name is none.
void add_words(std::string_view text, std::set<std::string>& words) {
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    std::string word;
    while (end < text.size() && is_letter(text[end])) word += static_cast<char>(text[end++] | 0x20);
    if (!word.empty() && (begin == 0 || text[begin - 1] != '$')) words.insert(word);
    begin = end + 1;
  }
}

}  // namespace

const std::vector<std::string>& demo_labels() {
  static const std::vector<std::string> labels{"abbreviation", "description", "thing",
                                               "person",       "place",       "number"};
  return labels;
}

std::vector<DemoQuestion> demo_train(size_t n, uint64_t seed) { return generate(grammar().train, n, seed); }

std::vector<DemoQuestion> demo_heldout(size_t n, uint64_t seed) {
  return generate(grammar().heldout, n, seed);
}

std::vector<DemoQuestion> demo_new_questions() {
  return {{"Who painted the tower of Lisbon at night?", 3},
          {"How many bridges are there in the capital of Norway?", 5},
          {"Where can people see the largest whale?", 4},
          {"Why is rust found on old iron?", 1},
          {"In banking, what is the full form of PIN?", 0}};
}

std::string demo_vocabulary() {
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (const char c : std::string_view("!\"#$%&'()*+,-./:;<=>?@[]_")) text += std::string(1, c) + "\n";
  for (const std::string prefix : {"", "##"}) {
    for (char c = '0'; c <= '9'; ++c) text += prefix + c + "\n";
    for (char c = 'a'; c <= 'z'; ++c) text += prefix + c + "\n";
  }
  for (const char* ending :
       {"es", "ed", "er", "est", "ing", "ly", "al", "ion", "tion", "ment", "ness", "able"}) {
    text += std::string("##") + ending + "\n";
  }
  std::set<std::string> words;
  for (const auto& [name, entries] : grammar().lexicon)
    for (const std::string& entry : entries) add_words(entry, words);
  for (const Templates* part : {&grammar().train, &grammar().heldout})
    for (const auto& templates : *part)
      for (const std::string& line : templates) add_words(line, words);
  for (const std::string& word : words)
    if (word.size() > 1) text += word + "\n";
  return text;
}

}  // namespace lathe
