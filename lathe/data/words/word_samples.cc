#include "lathe/data/words/word_samples.h"

#include <algorithm>

namespace lathe {
namespace {

template <typename F>
TagIds tags_of(const std::vector<std::vector<LabelledToken>>& tokens, const F& tag) {
  TagIds out;
  out.reserve(tokens.size());
  for (const std::vector<LabelledToken>& sentence : tokens) {
    std::vector<int32_t>& tags = out.emplace_back();
    for (const LabelledToken& token : sentence) tags.push_back(tag(token));
  }
  return out;
}

}  // namespace

TokenizedDataset word_samples(const LabelledSentences& sentences, const Tokenizer& tokenizer) {
  TokenizedDataset out;
  std::vector<int32_t> labels;
  bool tags = false;
  for (const LabelledSentence& sentence : sentences.sentences)
    for (const LabelledWindow& window : sentence.windows) {
      out.append(window.tokens, tokenizer);
      labels.insert(labels.end(), window.labels.begin(), window.labels.end());
      labels.resize(out.input_ids.size(), kNoLabel);  // of a sentence without words
      tags |= !window.labels.empty();
    }
  if (tags) out.tensors.ints("labels", Extent::kToken) = std::move(labels);
  return out;
}

std::vector<std::vector<LabelledToken>> scored_tokens(const LabelledSentences& sentences) {
  std::vector<std::vector<LabelledToken>> out;
  out.reserve(sentences.sentences.size());
  int64_t begin = 0;
  for (const LabelledSentence& sentence : sentences.sentences) {
    std::vector<LabelledToken>& tokens = out.emplace_back();
    for (const LabelledWindow& window : sentence.windows) {
      const auto add = [&](size_t token, int32_t label) {
        tokens.push_back({begin + static_cast<int64_t>(token), window.tokens.word_ids[token], label});
      };
      if (window.labels.empty())
        for (const int32_t token : window.answers) add(static_cast<size_t>(token), kNoLabel);
      for (size_t token = 0; token < window.labels.size(); ++token)
        if (window.labels[token] != kNoLabel) add(token, window.labels[token]);
      begin += static_cast<int64_t>(window.tokens.size());
    }
    std::ranges::stable_sort(tokens, {}, &LabelledToken::word);  // of cuts on the left windows come backwards
  }
  return out;
}

TagIds wanted_tags(const std::vector<std::vector<LabelledToken>>& tokens) {
  return tags_of(tokens, [](const LabelledToken& token) { return token.label; });
}

TagIds found_tags(const std::vector<std::vector<LabelledToken>>& tokens, std::span<const int32_t> best) {
  return tags_of(tokens, [&](const LabelledToken& token) { return best[static_cast<size_t>(token.token)]; });
}

}  // namespace lathe
