// Compares with stored results of the `tokenizers` package and of transformers; tools/make_words_goldens.py
// writes them.
#include "lathe/tokenizers/words_input.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "lathe/core/error_testing.h"
#include "lathe/core/sanitized.h"
#include "lathe/core/test_folder.h"
#include "lathe/tokenizers/golden_tokenizers_testing.h"

namespace lathe {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;
using Ids = std::vector<int32_t>;

const json& words_goldens() {
  static const json all =
      json::parse(tokenizer_goldens::read_file(source_path("lathe/tokenizers/testdata/words_goldens.json")));
  return all;
}

std::string first_code_points(const std::string& text, uint32_t count) {
  size_t at = 0;
  for (; count > 0 && at < text.size(); --count) unicode::decode(text, &at);
  return text.substr(0, at);
}

// Under a sanitizer some sentences are run; a digest is of all of them.
constexpr bool kAllSentences = LATHE_SANITIZED == 0;

json random_sentences(const Tokenizer& t) {
  tokenizer_goldens::Random random;
  tokenizer_goldens::Digest digest;
  for (int row = 0; row < (kAllSentences ? 600 : 40); ++row) {
    Words words(random.below(10));
    for (std::string& word : words) {
      const std::string text = tokenizer_goldens::random_text(&random);
      word = first_code_points(text, random.below(12));
    }
    EncodeOptions options;
    options.add_special_tokens = random.below(4) > 0;
    options.truncation = random.below(2) == 1 ? Truncation::kLongestFirst : Truncation::kNone;
    options.max_length = 4 + static_cast<int>(random.below(24));
    options.stride = static_cast<int>(random.below(8));
    try {
      const auto all = encode_words_with_overflow(t, words, options);
      digest.add(all);
      EXPECT_EQ(all[0], encode_words(t, words, options));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUsage);
      digest.bytes("refused");
    }
  }
  return digest.result();
}

json sentences_of(const Tokenizer& t, const std::string& path, size_t column) {
  tokenizer_goldens::Digest digest;
  Words words;
  const auto end = [&] {
    if (words.empty()) return;
    digest.add(encode_words(t, words));
    digest.add(encode_words_with_overflow(t, words, {.max_length = 24, .stride = 6}));
    words.clear();
  };
  for (const std::string& line : tokenizer_goldens::split_at(tokenizer_goldens::read_file(path), '\n')) {
    if (line.find_first_not_of('\t') == std::string::npos) {
      end();
      continue;
    }
    const Words fields = tokenizer_goldens::split_at(line, '\t');
    if (fields.size() > 1 && (column == 0 || fields[0].find_first_not_of("0123456789") == std::string::npos))
      words.push_back(fields[column]);
  }
  return digest.result();
}

TEST(WordsInput, EqualsTheTokenizersPackage) {
  std::map<std::string, std::vector<NamedFile>> known;
  int done = 0, skipped = 0;
  for (const json& wanted : words_goldens()["cases"]) {
    const std::string name = wanted["tokenizer"],
                      path = tokenizer_goldens::data_dir() + "/" + wanted.value("file", "");
    if (!known.contains(name)) known[name] = tokenizer_goldens::tokenizer_files(name);
    if (known[name].empty() || !std::filesystem::exists(path)) {
      ++skipped;
      continue;
    }
    ++done;
    if (!kAllSentences && wanted["kind"] != "random") continue;
    const Tokenizer t = Tokenizer::from_files(known[name], name);
    const json found =
        wanted["kind"] == "random" ? random_sentences(t) : sentences_of(t, path, wanted["column"]);
    if (!kAllSentences) continue;
    for (const auto& [key, value] : found.items()) EXPECT_EQ(value, wanted[key]) << wanted;
  }
  if (done == 0 || skipped > 0) GTEST_SKIP() << done << " cases compared, " << skipped << " need data";
}

TEST(WordsInput, PrefixSpaceAsAutoTokenizerAddsIt) {
  for (const json& wanted : words_goldens()["prefixes"]) {
    std::vector<NamedFile> files = tokenizer_goldens::tokenizer_files(wanted["tokenizer"]);
    if (wanted["class"] != "")
      files.emplace_back("tokenizer_config.json", json{{"tokenizer_class", wanted["class"]}}.dump());
    const Tokenizer loaded = Tokenizer::from_files(files_for_words(files, "roberta"), "golden");
    const Tokenizer again = Tokenizer::from_files(loaded.files(), "saved");
    for (const Tokenizer& t : {loaded, again}) {
      const Encoding e = encode_words(t, Words{"hello", "the", " in", "x y"});
      EXPECT_EQ(json(e.ids), wanted["ids"]) << wanted;
      EXPECT_EQ(json(e.word_ids), wanted["words"]) << wanted;
      EXPECT_EQ(json(e.offsets), wanted["offsets"]) << wanted;
    }
  }
}

TEST(WordsInput, OnlySomeModelsHaveAPrefixSpace) {
  const auto files = tokenizer_goldens::tokenizer_files("roberta");
  EXPECT_EQ(files_for_words(files, "modernbert"), files);
  const TestFolder folder;
  std::ofstream(folder / "tokenizer.json") << files[0].second;
  const Words words{"hello", "the"};
  const Encoding plain = encode_words(Tokenizer::load(folder.path()), words);
  EXPECT_EQ(encode_words(load_words_tokenizer(folder.path(), "modernbert"), words), plain);
  EXPECT_EQ(encode_words(load_words_tokenizer(folder.path(), "roberta"), words).ids,
            (Ids{0, 302, 79, 318, 264, 2}));
}

Tokenizer small(const char* config = "{}") {
  const std::vector<NamedFile> files{{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n.\n"},
                                     {"tokenizer_config.json", config}};
  return Tokenizer::from_files(files, "small");
}

TEST(WordsInput, WordsWithoutTokensLeaveTheOthersNumbers) {
  const Encoding e = encode_words(small(), Words{"\u200b", "aa.", "", "b"});
  EXPECT_EQ(e.ids, (Ids{2, 5, 7, 8, 6, 3}));
  EXPECT_EQ(e.word_ids, (Ids{-1, 1, 1, 1, 3, -1}));
  EXPECT_EQ(e.offsets[2], (std::array<int32_t, 2>{1, 2}));
  EXPECT_EQ(e.whole, 6u);
  EXPECT_EQ(encode_words(small(), Words{"", "\u200b"}).ids, (Ids{2, 3}));
  EXPECT_EQ(encode_words(small(), {}).word_ids, (Ids{-1, -1}));
  EXPECT_EQ(encode_words(small(), {}, {.add_special_tokens = false}).size(), 0u);
}

TEST(WordsInput, CutsOnTheSideOfTheConfiguration) {
  const Words words{"a", "b", "aa"};
  EXPECT_EQ(encode_words(small(), words, {.max_length = 4}).ids, (Ids{2, 5, 6, 3}));
  const Encoding left = encode_words(small(R"({"truncation_side": "left"})"), words, {.max_length = 4});
  EXPECT_EQ(left.ids, (Ids{2, 5, 7, 3}));
  EXPECT_EQ(left.word_ids, (Ids{-1, 2, 2, -1}));
  EXPECT_EQ(left.whole, 6u);
}

TEST(WordsInput, AWordOfTenThousandLetters) {
  const Words words{"b", std::string(10000, 'a'), "b"};
  EXPECT_EQ(encode_words(small(), words).ids, (Ids{2, 6, 1, 6, 3}));
  const Tokenizer bytes = Tokenizer::from_files(tokenizer_goldens::tokenizer_files("prefixed"), "golden");
  const Encoding e = encode_words(bytes, words, {.max_length = 64});
  EXPECT_EQ(e.size(), 64u);
  EXPECT_EQ(e.word_ids[62], 1);
  EXPECT_EQ(encode_words(bytes, words).word_ids.end()[-2], 2);
}

TEST(WordsInput, RefusesWhatLeavesNoRoom) {
  EXPECT_EQ(message_of(ErrorCode::kUsage, [] { encode_words(small(), Words{"a"}, {.max_length = 1}); }),
            "tokenizer: max_length 1 has no room for the 2 special tokens; expected more");
}

TEST(WordsInput, JoinsTokensAsPythonDoes) {
  EXPECT_EQ(small().join(Words{"a", "##a", "."}), "aa.");
  EXPECT_EQ(small().join(Words{"New York", "##b"}), "New Yorkb");
  EXPECT_TRUE(small().marks_inner_tokens());
  EXPECT_FALSE(
      Tokenizer::from_files(tokenizer_goldens::tokenizer_files("roberta"), "golden").marks_inner_tokens());
}

}  // namespace
}  // namespace lathe
