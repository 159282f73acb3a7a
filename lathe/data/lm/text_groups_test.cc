#include "lathe/data/lm/text_groups.h"

#include <gtest/gtest.h>

#include <climits>

#include "lathe/data/golden_testing.h"
#include "lathe/data/test_data.h"

namespace lathe {
namespace {

using Views = std::vector<std::string_view>;

void expect_rows(const TextRows& rows, const nlohmann::json& wanted) {
  EXPECT_EQ(rows.size(), wanted["rows"].get<int64_t>());
  const std::vector<size_t> lengths = wanted["lengths"];
  for (size_t i = 0; i < lengths.size(); ++i) EXPECT_EQ(rows.row(static_cast<int64_t>(i)).size(), lengths[i]);
  EXPECT_EQ(fnv64(rows.ids), wanted["ids"].get<std::string>());
  EXPECT_EQ(fnv64(std::vector<int32_t>(rows.special.begin(), rows.special.end())),
            wanted["special"].get<std::string>());
}

Tokenizer tiny_tokenizer() { return Tokenizer::load(source_path("tests/golden/tiny_bert/classification")); }

TEST(TextGroups, GroupEachThousandTextsAsRunMlm) {
  TextRows texts;
  const std::vector<int32_t> lengths = pseudo(2345, 40, 51);
  for (const int32_t n : lengths) texts.begins.push_back(texts.begins.back() + n);
  texts.ids = pseudo(static_cast<size_t>(texts.begins.back()), 1000, 52);
  for (const int32_t id : texts.ids) texts.special.push_back(id % 3 == 0);
  for (const auto& c : golden("../mlm/groups.json", "grouped")) {
    SCOPED_TRACE(c["length"].dump());
    expect_rows(group_texts(texts, c["length"].get<int>()), c);
  }
}

TEST(TextGroups, ReadsATextFileAsDatasets) {
  const nlohmann::json file = golden("../mlm/groups.json", "file");
  const std::string text = file["text"];
  const Views lines = lines_of(text);
  EXPECT_EQ(Values(lines.begin(), lines.end()), file["lines"].get<Values>());
  const Views words = texts_with_words(lines);
  EXPECT_EQ(Values(words.begin(), words.end()), file["with_words"].get<Values>());
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    const Tokenizer tokenizer = tiny_tokenizer();
    const TextRows by_line = tokenize_texts(words, tokenizer, 16, pool);
    expect_rows(by_line, file["by_line"]);
    EXPECT_EQ(by_line.cut_rows, 2);  // by the stone city; 30 cities
    const TextRows whole = tokenize_texts(lines, tokenizer, 0, pool);
    EXPECT_EQ(whole.cut_rows, 0);
    expect_rows(group_texts(whole, 24), file["grouped"]);
  }
}

TEST(TextGroups, EndsLinesWhereDatasetsDoes) {
  EXPECT_EQ(lines_of(""), Views{});
  EXPECT_EQ(lines_of("a"), Views{"a"});
  EXPECT_EQ(lines_of("a\n"), Views{"a"});
  EXPECT_EQ(lines_of("\n"), Views{""});
  EXPECT_EQ(lines_of("a\r\r\nb\n\n"), (Views{"a", "", "b", ""}));
}

TEST(TextGroups, SplitsByPercentAsDatasets) {
  for (const auto& c : golden("../mlm/groups.json", "splits")) {
    const int64_t rows = c[0], border = c[2];
    const ValidationSplit split = split_validation(rows, c[1]);
    EXPECT_EQ(split.validation, (RowRange{0, border})) << c;
    EXPECT_EQ(split.train, (RowRange{border, rows})) << c;
  }
  message_of(ErrorCode::kUsage, [] { split_validation(5, 101); });
  message_of(ErrorCode::kUsage, [] { split_validation(5, -1); });
}

TEST(TextGroups, CapTheLengthAsRunMlm) {
  EXPECT_EQ(sequence_length(0, INT_MAX), 1024);
  EXPECT_EQ(sequence_length(0, 512), 512);
  EXPECT_EQ(sequence_length(128, 512), 128);
  EXPECT_EQ(sequence_length(600, 512), 512);
  EXPECT_EQ(sequence_length(2048, 8192), 2048);
  message_of(ErrorCode::kUsage, [] { sequence_length(-3, 512); });
  message_of(ErrorCode::kUsage, [] { group_texts(TextRows{}, 0); });
}

}  // namespace
}  // namespace lathe
