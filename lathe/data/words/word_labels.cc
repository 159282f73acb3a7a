#include "lathe/data/words/word_labels.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/data/parallel_parts.h"

namespace lathe {
namespace {

constexpr int64_t kWholeSide = INT64_MAX;  // the sentence's own end is no loss of context

// Where a window's text stands among all tokens of the sentence.
struct Place {
  int64_t begin, end;
};

int64_t text_tokens(const Encoding& tokens) {
  return std::count_if(tokens.word_ids.begin(), tokens.word_ids.end(),
                       [](int32_t word) { return word >= 0; });
}

std::vector<Place> places_of(const std::vector<Encoding>& windows, int64_t stride, bool left) {
  const int64_t length = text_tokens(windows.front());
  const int64_t all =
      static_cast<int64_t>(windows.front().whole) - (static_cast<int64_t>(windows.front().size()) - length);
  std::vector<Place> out;
  for (size_t k = 0; k < windows.size(); ++k) {
    const int64_t begin = static_cast<int64_t>(k) * (length - stride), end = begin + text_tokens(windows[k]);
    out.push_back(left ? Place{all - end, all - begin} : Place{begin, end});
  }
  return out;
}

// Words with their tokens: [first, end) among all tokens of the sentence.
std::vector<Place> places_of_words(const std::vector<Encoding>& windows, const std::vector<Place>& places,
                                   size_t words) {
  std::vector<Place> out(words, {INT64_MAX, -1});
  for (size_t k = 0; k < windows.size(); ++k) {
    int64_t at = places[k].begin;
    for (const int32_t word : windows[k].word_ids) {
      if (word < 0) continue;
      Place& place = out[static_cast<size_t>(word)];
      place = {std::min(place.begin, at), std::max(place.end, at + 1)};
      ++at;
    }
  }
  return out;
}

// [words] The window that answers for each; -1 for none.
std::vector<int32_t> windows_of_words(const std::vector<Encoding>& windows, int64_t stride, bool left,
                                      size_t words) {
  const std::vector<Place> places = places_of(windows, stride, left);
  const std::vector<Place> of_words = places_of_words(windows, places, words);
  const int64_t all = (left ? places.front() : places.back()).end;
  std::vector<int32_t> out(words, -1);
  std::vector<int64_t> context(words);
  for (size_t k = 0; k < windows.size(); ++k) {
    int64_t at = places[k].begin;
    for (const int32_t id : windows[k].word_ids) {
      if (id < 0) continue;
      const auto word = static_cast<size_t>(id);
      if (at++ != of_words[word].begin) continue;
      const int64_t before = places[k].begin == 0 ? kWholeSide : of_words[word].begin - places[k].begin;
      const int64_t after = places[k].end == all ? kWholeSide : places[k].end - of_words[word].end;
      const int64_t nearer = std::min(before, after);
      const bool better =
          out[word] < 0 || nearer > context[word] ||
          (nearer == context[word] && places[k].begin < places[static_cast<size_t>(out[word])].begin);
      if (better) out[word] = static_cast<int32_t>(k), context[word] = nearer;
    }
  }
  return out;
}

// answered: whether this window answers for a word.
template <typename Answered>
LabelledWindow labelled(Encoding tokens, std::span<const int32_t> ids, const TagLabels& labels,
                        bool all_tokens, const Answered& answered) {
  LabelledWindow out;
  if (!ids.empty()) out.labels.assign(tokens.size(), kNoLabel);
  int32_t before = -1;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int32_t word = tokens.word_ids[i];
    const bool first = word != before;
    before = word;
    if (word < 0 || !answered(static_cast<size_t>(word))) continue;
    if (first) out.answers.push_back(static_cast<int32_t>(i));
    if (ids.empty() || (!first && !all_tokens)) continue;
    const int32_t id = ids[static_cast<size_t>(word)];
    out.labels[i] = first ? id : labels.inner()[static_cast<size_t>(id)];
  }
  out.tokens = std::move(tokens);
  return out;
}

size_t words_with_tokens(const std::vector<Encoding>& windows, size_t words) {
  std::vector<bool> met(words);
  for (const Encoding& window : windows)
    for (const int32_t word : window.word_ids)
      if (word >= 0) met[static_cast<size_t>(word)] = true;
  return static_cast<size_t>(std::count(met.begin(), met.end(), true));
}

}  // namespace

std::vector<int32_t> LabelledSentence::answers(size_t words,
                                               std::span<const std::vector<int32_t>> best) const {
  std::vector<int32_t> out(words, -1);
  for (size_t w = 0; w < windows.size(); ++w)
    for (const int32_t token : windows[w].answers)
      out[static_cast<size_t>(windows[w].tokens.word_ids[static_cast<size_t>(token)])] =
          best[w][static_cast<size_t>(token)];
  return out;
}

LabelledSentence label_words(const Tokenizer& tokenizer, std::span<const std::string> words,
                             std::span<const int32_t> ids, const TagLabels& labels,
                             const WordLabelOptions& options) {
  LabelledSentence out;
  EncodeOptions encode{.max_length = options.max_length};
  if (options.stride) {
    encode.stride = *options.stride;
    const int room = options.max_length - tokenizer.num_special_tokens(false);
    if (encode.stride < 0 || (options.max_length > 0 && encode.stride >= room))
      fail(ErrorCode::kUsage,
           "stride {} with samples of {} tokens, {} of them special: found no progress from window to "
           "window, expected a "
           "stride from 0 to {}: lower --stride or raise --max_seq_length",
           encode.stride, options.max_length, options.max_length - room, room - 1);
    std::vector<Encoding> windows = encode_words_with_overflow(tokenizer, words, encode);
    out.silent_words = static_cast<int32_t>(words.size() - words_with_tokens(windows, words.size()));
    const std::vector<int32_t> window_of =
        windows_of_words(windows, encode.stride, tokenizer.truncates_left(), words.size());
    for (size_t k = 0; k < windows.size(); ++k)
      out.windows.push_back(
          labelled(std::move(windows[k]), ids, labels, options.label_all_tokens,
                   [&](size_t word) { return window_of[word] == static_cast<int32_t>(k); }));
    return out;
  }
  std::vector<Encoding> kept{encode_words(tokenizer, words, encode)};
  const size_t answered = words_with_tokens(kept, words.size());
  const bool cut = kept.front().whole > kept.front().size();
  const size_t all = cut ? words_with_tokens({encode_words(tokenizer, words)}, words.size()) : answered;
  out.cut_words = static_cast<int32_t>(all - answered);
  out.silent_words = static_cast<int32_t>(words.size() - all);
  out.windows.push_back(
      labelled(std::move(kept.front()), ids, labels, options.label_all_tokens, [](size_t) { return true; }));
  return out;
}

LabelledSentences label_sentences(const Tokenizer& tokenizer, const WordTable& table, const TagIds& ids,
                                  const TagLabels& labels, const WordLabelOptions& options,
                                  ThreadPool& pool) {
  auto parts = parallel_parts<std::vector<LabelledSentence>>(
      pool, static_cast<long>(table.size()), [&](long begin, long end) {
        std::vector<LabelledSentence> part;
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
          part.push_back(label_words(tokenizer, table.words[i],
                                     ids.empty() ? std::span<const int32_t>{} : std::span(ids[i]), labels,
                                     options));
        return part;
      });
  LabelledSentences out;
  for (auto& part : parts) std::move(part.begin(), part.end(), std::back_inserter(out.sentences));
  for (size_t i = 0; i < table.size(); ++i) {
    const LabelledSentence& sentence = out.sentences[i];
    out.words += static_cast<int64_t>(table.words[i].size());
    out.cut_words += sentence.cut_words;
    out.silent_words += sentence.silent_words;
    if (sentence.cut_words > 0 && out.cut_sentences++ == 0) out.first_cut = i;
  }
  return out;
}

}  // namespace lathe
