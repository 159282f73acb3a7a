#include "lathe/tokenizers/word_splitter.h"

#include <algorithm>

#include "lathe/text/unicode.h"

namespace lathe {
namespace {

struct Part {
  size_t begin, end;
  bool is_match;
};

/// Matches of the step and what lies between them, in order; no match is empty.
std::vector<Part> parts_of(const WordStep& rules, std::string_view text) {
  std::vector<Part> out;
  size_t done = 0;
  const auto put = [&](size_t begin, size_t end) {
    if (done < begin) out.push_back({done, begin, rules.invert});
    out.push_back({begin, end, !rules.invert});
    done = end;
  };
  if (rules.kind == WordStep::Kind::kDigits) {
    for (size_t at = 0, next = 0; at < text.size(); at = next)
      if ((unicode::info(unicode::decode(text, &next)).flags & unicode::kNumber) != 0) put(at, next);
  } else if (rules.pattern) {
    while (done < text.size()) put(done, match_end(*rules.pattern, text, done));
  } else if (!rules.literal.empty()) {
    for (size_t at = text.find(rules.literal); at != std::string_view::npos;
         at = text.find(rules.literal, done))
      put(at, at + rules.literal.size());
  }
  if (done < text.size()) out.push_back({done, text.size(), rules.invert});
  return out;
}

/// Puts parts together as the behavior asks; is_match then says which go.
std::vector<Part> words_of(std::vector<Part> parts, WordStep::Behavior behavior) {
  using Behavior = WordStep::Behavior;
  if (behavior == Behavior::kRemoved) return parts;
  const bool backwards = behavior == Behavior::kMergedWithNext;
  if (backwards) std::reverse(parts.begin(), parts.end());
  std::vector<Part> out;
  bool before = false;  // whether the last part is a match
  for (const Part& part : parts) {
    const bool joins = behavior == Behavior::kContiguous ? part.is_match == before
                       : behavior == Behavior::kIsolated ? false
                                                         : part.is_match && !before;
    if (joins && !out.empty()) {
      out.back().begin = std::min(out.back().begin, part.begin);
      out.back().end = std::max(out.back().end, part.end);
    } else {
      out.push_back({part.begin, part.end, false});
    }
    before = part.is_match;
  }
  if (backwards) std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

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
  using Kind = WordStep::Kind;
  const WordStep& rules = steps_[step];
  if (rules.kind == Kind::kMetaspace) return split_metaspace(step, text, begin, end, changed, word);
  if (rules.kind == Kind::kByteLevel) return split_byte_level(step, text, begin, end, changed, word);
  const bool isolated = rules.behavior == WordStep::Behavior::kIsolated;
  if (isolated && rules.pattern) return split_pattern(step, *rules.pattern, text, begin, end, changed, word);
  if (rules.kind == Kind::kSplit || !isolated) return split_matches(step, text, begin, end, changed, word);
  const bool spaces = rules.kind == Kind::kWhitespaceSplit;
  const uint32_t parts = spaces                        ? unicode::kSpace
                         : rules.kind == Kind::kDigits ? unicode::kNumber
                                                       : unicode::kPunctuation;
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

void WordSplitter::split_pattern(size_t step, SplitPattern pattern, const NormalizedText& text, size_t begin,
                                 size_t end, std::vector<NormalizedText>* changed, const Word& word) const {
  const std::string_view part = std::string_view(text.text).substr(0, end).substr(begin);
  for (size_t at = 0; at < part.size();) {
    const size_t next = match_end(pattern, part, at);
    run(step + 1, text, begin + at, begin + next, changed, word);
    at = next;
  }
}

void WordSplitter::split_matches(size_t step, const NormalizedText& text, size_t begin, size_t end,
                                 std::vector<NormalizedText>* changed, const Word& word) const {
  const std::string_view part = std::string_view(text.text).substr(begin, end - begin);
  for (const Part& p : words_of(parts_of(steps_[step], part), steps_[step].behavior))
    if (!p.is_match) run(step + 1, text, begin + p.begin, begin + p.end, changed, word);
}

/// The blank that is put at the front has the origin of the code point after it.
void WordSplitter::split_byte_level(size_t step, const NormalizedText& text, size_t begin, size_t end,
                                    std::vector<NormalizedText>* changed, const Word& word) const {
  const NormalizedText* from = &text;
  if (steps_[step].add_prefix_space && text.text[begin] != ' ') {
    NormalizedText& n = (*changed)[step];
    n.clear();
    n.append(' ', text.origin[begin]);
    n.append(text, begin, end);
    from = &n, begin = 0, end = n.text.size();
  }
  if (!steps_[step].use_regex) return run(step + 1, *from, begin, end, changed, word);
  split_pattern(step, SplitPattern::kGpt2, *from, begin, end, changed, word);
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
