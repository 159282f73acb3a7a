#include "lathe/tokenizers/word_splitter.h"

#include <algorithm>

#include "lathe/text/unicode.h"

namespace lathe {

WordSplitter::WordSplitter(std::vector<WordStep> steps) : steps_(std::move(steps)) {}

void WordSplitter::split(const NormalizedText& text, size_t begin, size_t end, const Word& word) const {
  thread_local std::vector<NormalizedText> changed;  // by step
  if (changed.size() < steps_.size()) changed.resize(steps_.size());
  run(0, text, begin, end, &changed, word);
}

void WordSplitter::run(size_t step, const NormalizedText& text, size_t begin, size_t end,
                       std::vector<NormalizedText>* changed, const Word& word) const {
  if (begin == end) return;
  if (step == steps_.size()) return word(text, begin, end);
  if (steps_[step].kind == WordStep::Kind::kMetaspace)
    return split_metaspace(step, text, begin, end, changed, word);
  const bool spaces = steps_[step].kind == WordStep::Kind::kWhitespaceSplit;
  const uint32_t parts = spaces ? unicode::kSpace : unicode::kPunctuation;
  size_t first = begin;
  for (size_t at = begin; at < end;) {
    size_t next = at;
    if ((unicode::info(unicode::decode(text.text, &next)).flags & parts) != 0) {
      run(step + 1, text, first, at, changed, word);
      if (!spaces) run(step + 1, text, at, next, changed, word);
      first = next;
    }
    at = next;
  }
  run(step + 1, text, first, end, changed, word);
}

/// What is put at the front has the origin of the code point after it.
void WordSplitter::split_metaspace(size_t step, const NormalizedText& text, size_t begin, size_t end,
                                   std::vector<NormalizedText>* changed, const Word& word) const {
  const WordStep& rules = steps_[step];
  const std::string_view part = std::string_view(text.text).substr(begin, end - begin);
  const bool prepend = part[0] != ' ' && !part.starts_with(rules.replacement) &&
                       (rules.prepend == WordStep::Prepend::kAlways ||
                        (rules.prepend == WordStep::Prepend::kFirst && text.origin[begin] == 0));
  NormalizedText& n = (*changed)[step];
  n.clear();
  const auto put = [&](uint32_t origin) {
    n.text += rules.replacement;
    n.origin.resize(n.text.size(), origin);
  };
  if (prepend) put(text.origin[begin]);
  for (size_t at = begin; at < end;) {
    const size_t blank = std::min(text.text.find(' ', at), end);
    n.append(text, at, blank);
    if (blank < end) put(text.origin[blank]);
    at = blank + 1;
  }
  size_t first = 0;
  while (rules.split && first < n.text.size()) {
    // Where it begins the word, the next one is looked for.
    const size_t next = n.text.find(rules.replacement, first + 1);
    if (next == std::string::npos) break;
    run(step + 1, n, first, next, changed, word);
    first = next;
  }
  run(step + 1, n, first, n.text.size(), changed, word);
}

}  // namespace lathe
