#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lathe/core/error.h"
#include "lathe/data/words/entities.h"
#include "lathe/data/words/word_labels.h"

namespace {

using namespace lathe;

const Tokenizer& tokenizer() {
  static const Tokenizer one = [] {
    const std::vector<NamedFile> files{
        {"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##b\n.\n"}};
    return Tokenizer::from_files(files, "fuzz");
  }();
  return one;
}

void require(bool holds) {
  if (!holds) std::abort();
}

// Words that are answered for are so once; entities lie in the text.
void try_sentence(const std::vector<std::string>& words, const std::vector<int32_t>& ids,
                  const TagLabels& labels, const WordLabelOptions& options) {
  LabelledSentence sentence = label_words(tokenizer(), words, ids, labels, options);
  std::vector<std::vector<int32_t>> best;
  int32_t answered = 0;
  for (const LabelledWindow& window : sentence.windows) {
    require(window.labels.size() == (ids.empty() ? 0 : window.tokens.size()));
    best.emplace_back(window.tokens.size(), 0);
    answered += static_cast<int32_t>(window.answers.size());
  }
  require(answered + sentence.cut_words + sentence.silent_words == static_cast<int32_t>(words.size()));
  int32_t with_answer = 0;
  for (const int32_t label : sentence.answers(words.size(), best)) with_answer += label == 0;
  require(with_answer == answered);
  std::vector<Encoding> tokens{std::move(sentence.windows[0].tokens)};
  const std::string text = text_of_words(words, tokens);
  std::vector<float> logits(tokens[0].size() * labels.names().size());
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 7 % 5);
  for (const char* name : {"none", "simple", "first", "average", "max"})
    for (const FoundEntity& e : without_overlaps(find_entities(tokenizer(), text, tokens[0],
                                                               softmax_rows(logits, labels.names().size()),
                                                               labels.names(), *aggregation_named(name))))
      require(e.start >= 0 && e.start <= e.end && static_cast<size_t>(e.end) <= text.size());
}

void try_table(const WordTable& table, uint8_t choice) {
  require(table.lines.size() == table.size() && (!table.has_tags() || table.tags.size() == table.size()));
  for (size_t i = 0; i < table.size(); ++i) {
    require(!table.has_tags() || table.tags[i].size() == table.words[i].size());
    require(!table.place(i).empty());
  }
  const TagLabels labels = choose_tag_labels(table, {{"O", 0}, {"B-X", 1}});
  const TagIds ids = tag_ids(table, labels);
  for (size_t i = 0; i < table.size(); ++i) {
    WordLabelOptions options{.max_length = 3 + choice % 5, .label_all_tokens = choice % 2 == 0};
    try_sentence(table.words[i], ids.empty() ? std::vector<int32_t>{} : ids[i], labels, options);
    options.stride = choice % 3;
    try_sentence(table.words[i], {}, labels, options);
  }
  if (ids.empty()) return;
  seqeval_metrics(seqeval(ids, ids, labels.names()), true);
  seqeval(table.tags, table.tags, TagStyle::kSuffix);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  // The first byte chooses what the rest is.
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  WordColumns columns{.task = data[0] & 1 ? "ner" : "pos", .tags_needed = (data[0] & 2) != 0};
  if (data[0] & 4) columns.tags = "2";
  try {
    if (data[0] & 8)
      try_table(
          words_of_table(parse_table(text, TableFormat::kJson, {}, "fuzz"), columns,
                         data[0] & 16 ? std::vector<std::string>{"O", "B-X"} : std::vector<std::string>{}),
          data[1]);
    else
      try_table(words_of_text(text, word_format("fuzz", text), columns, "fuzz"), data[1]);
  } catch (const Error&) {  // what bad input ends in
  }
  return 0;
}
