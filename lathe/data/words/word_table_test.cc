#include "lathe/data/words/word_table.h"

#include <gtest/gtest.h>

#include <fstream>

#include "lathe/core/test_folder.h"
#include "lathe/data/golden_testing.h"
#include "lathe/data/parquet.h"
#include "lathe/data/test_data.h"
#include "lathe/data/words/made_up_tags_testing.h"

namespace lathe {
namespace {

WordTable lines(const std::string& text, const WordColumns& columns = {}) {
  return words_of_text(text, word_format("f.conll", text), columns, "f.conll");
}

WordTable rows(const std::string& text, const WordColumns& columns = {}, const Values& classes = {}) {
  return words_of_table(parse_table(text, TableFormat::kJsonLines, {}, "f.json"), columns, classes);
}

std::string refused(const std::string& text, const WordColumns& columns = {}) {
  return message_of(ErrorCode::kInvalidData, [&] { lines(text, columns); });
}

std::string row_refused(const std::string& text, const WordColumns& columns = {},
                        const Values& classes = {}) {
  return message_of(ErrorCode::kInvalidData, [&] { rows(text, columns, classes); });
}

const std::string kConll2003 =
    "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n# # B-NP O\n5 CD I-NP O\n\n"
    "-DOCSTART- -X- O O\n\nPeter NNP B-NP B-PER\n";

TEST(WordTable, Conll2003ByTask) {
  const WordTable ner = lines(kConll2003);
  EXPECT_EQ(ner.words, (TagTexts{{"EU", "rejects"}, {"#", "5"}, {"Peter"}}));
  EXPECT_EQ(ner.tags, (TagTexts{{"B-ORG", "O"}, {"O", "O"}, {"B-PER"}}));
  EXPECT_EQ(ner.lines, (std::vector<uint32_t>{3, 6, 11}));
  EXPECT_EQ(ner.place(1), "f.conll:6");
  EXPECT_EQ(ner.words_from + ", " + ner.tags_from, "column 1, column 4");
  EXPECT_EQ(lines(kConll2003, {.task = "pos"}).tags, (TagTexts{{"NNP", "VBZ"}, {"#", "CD"}, {"NNP"}}));
  EXPECT_EQ(lines(kConll2003, {.task = "chunk"}).tags,
            (TagTexts{{"B-NP", "B-VP"}, {"B-NP", "I-NP"}, {"B-NP"}}));
  EXPECT_EQ(lines(kConll2003, {.tags = "2"}).tags[0], (Values{"NNP", "VBZ"}));
}

TEST(WordTable, TabsKeepBlanksAndLoneTabsEndSentences) {
  const WordTable table =
      lines("\xEF\xBB\xBF# newdoc\nNew York\tB-LOC\r\n,\tO\t\r\n\t\r\n#hashtag\tO\n\n# text = x\n");
  EXPECT_EQ(table.words, (TagTexts{{"New York", ","}, {"#hashtag"}}));
  EXPECT_EQ(table.tags, (TagTexts{{"B-LOC", "O"}, {"O"}}));
}

TEST(WordTable, CountedWordsAndColumnsAfterTheTag) {
  const WordTable table =
      lines("# sent_id = 1\n1\tin\tO\t-\t-\n2\ttampa\tB-LOC\t-\tstephen\n\n1\tbay\tO\t-\t-\n");
  EXPECT_EQ(table.words, (TagTexts{{"in", "tampa"}, {"bay"}}));
  EXPECT_EQ(table.tags, (TagTexts{{"O", "B-LOC"}, {"O"}}));
}

TEST(WordTable, NestedTagsOfCountedWordsAndCommentsWithBlanks) {
  const WordTable german = lines("#\thttp://example.org\t[2009]\n1\tIn\tO\tO\n2\tKiel\tB-LOC\tB-ORG\n");
  EXPECT_EQ(german.tags, (TagTexts{{"O", "B-LOC"}}));
  const WordTable blanks = lines("# id 42 domain=en\nrobert _ _ B-PER\n1 _ _ O\n");
  EXPECT_EQ(blanks.words, (TagTexts{{"robert", "1"}}));
  EXPECT_EQ(lines("1 O\n").words, (TagTexts{{"1"}}));
}

TEST(WordTable, ConllU) {
  const std::string text =
      "# text = vámonos al mar\n"
      "1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_\n1\tvamos\tir\tVERB\tV\t_\t0\troot\t_\t_"
      "\n2\tnos\tnosotros\tPRON\tP\t_\t1\tobj\t_\t_\n"
      "2.1\tno\tno\tADV\t_\t_\t_\t_\t_\t_\n3\ta "
      "l\ta\tADP\tA\t_\t1\tcase\t_\t_\n\n1\t#\t#\tSYM\tS\t_\t0\troot\t_\t_\n";
  EXPECT_EQ(word_format("f.txt", text), WordFormat::kConllU);
  const WordTable table = lines(text);
  EXPECT_EQ(table.words, (TagTexts{{"vamos", "nos", "a l"}, {"#"}}));
  EXPECT_EQ(table.tags, (TagTexts{{"VERB", "PRON", "ADP"}, {"SYM"}}));
  EXPECT_EQ(table.lines, (std::vector<uint32_t>{3, 8}));
  EXPECT_EQ(lines(text, {.words = "LEMMA", .tags = "xpos"}).tags[0], (Values{"V", "P", "A"}));
  EXPECT_EQ(refused("1\ta\ta\tX\tX\t_\t_\t_\t_\t_\n3\tb\tb\tX\tX\t_\t_\t_\t_\t_\n"),
            "f.conll:2: found the ID '3', expected 2, or a range or an empty node such as 2-3 or 2.1; a "
            "blank line ends "
            "a sentence");
  EXPECT_EQ(refused("1\ta\ta\tX\tX\t_\t_\t_\t_\t_\n2\tb\n"),
            "f.conll:2: found 2 columns between tabs, expected the ten of CoNLL-U: '2\tb'");
  const std::string bare = "1\ta\ta\tX\t_\t_\t_\t_\t_\t_\n";
  EXPECT_EQ(refused(bare, {.tags = "XPOS"}),
            "f.conll: column XPOS has no value in it, only _; expected tags: name another column with "
            "--label_column_name, such as UPOS or XPOS");
  EXPECT_FALSE(lines(bare, {.tags = "XPOS", .tags_needed = false}).has_tags());
}

TEST(WordTable, FormatsByNameAndContent) {
  EXPECT_EQ(word_format("a/train.jsonl.gz", ""), WordFormat::kTable);
  EXPECT_EQ(word_format("a.conllu.gz", ""), WordFormat::kConllU);
  for (const char* name : {"a.conll", "a.iob2", "a.bio", "a.txt", "eng.train", "words"})
    EXPECT_EQ(word_format(name, "a O\n"), WordFormat::kLines) << name;
}

TEST(WordTable, LinesWithoutTagsForPredictions) {
  const WordTable table = lines("EU\nrejects\n\nPeter\n", {.tags_needed = false});
  EXPECT_EQ(table.words, (TagTexts{{"EU", "rejects"}, {"Peter"}}));
  EXPECT_FALSE(table.has_tags());
  EXPECT_EQ(lines("1 EU\n2 rejects\n", {.tags_needed = false}).words, (TagTexts{{"EU", "rejects"}}));
}

TEST(WordTable, LinesThatAreRefused) {
  EXPECT_EQ(refused("EU B-ORG\nrejects\n"),
            "f.conll:2: found 1 column between blanks, expected 2 as in line 1: 'rejects'; mend the line, or "
            "put a blank "
            "line where a sentence ends");
  EXPECT_EQ(refused("EU\nrejects\n"),
            "f.conll:1: found 1 column, expected a word and its tag, parted by a tab or a blank, such as "
            "\"EU B-ORG\"");
  EXPECT_EQ(refused("a\tO\n\tO\n"), "f.conll:2: column 1 is empty, expected a word: '\tO'");
  EXPECT_EQ(refused("a\tX\tO\nb\t\tO\n", {.tags = "2"}),
            "f.conll:2: column 2 is empty, expected a tag: 'b\t\tO'");
  EXPECT_EQ(refused("\n# only\n"),
            "f.conll: found no word, expected a word and its tag on each line, such as \"EU B-ORG\"");
  EXPECT_TRUE(contains(refused("a O\n\xff O\n"), "f.conll:2: byte 1 of the line is 0xff, no UTF-8"));
  EXPECT_EQ(message_of(ErrorCode::kNotFound, [] { lines("a O\n", {.tags = "ner_tags"}); }),
            "f.conll: no column 'ner_tags', which --label_column_name names; expected a number from 1 to 2");
}

TEST(WordTable, ColumnsOfTablesAsRunNerChoosesThem) {
  const std::string row =
      R"({"id": "0", "tokens": ["EU", "x"], "pos_tags": ["NN", "X"], "ner_tags": ["B-ORG", "O"]})";
  EXPECT_EQ(rows(row).tags, (TagTexts{{"B-ORG", "O"}}));
  EXPECT_EQ(rows(row, {.task = "pos"}).tags, (TagTexts{{"NN", "X"}}));
  EXPECT_EQ(rows(row, {.words = "pos_tags", .tags = "tokens"}).words, (TagTexts{{"NN", "X"}}));
  const WordTable first_two = rows(R"({"w": ["a"], "t": ["O"], "n": ["X"]})");
  EXPECT_EQ(first_two.words_from + ", " + first_two.tags_from, "column 'w', column 't'");
  EXPECT_FALSE(rows(R"({"tokens": ["a"]})", {.tags_needed = false}).has_tags());
  EXPECT_EQ(message_of(ErrorCode::kNotFound, [] { rows(R"({"tokens": ["a"]})"); }),
            "f.json: no column of tags: found 'tokens', expected 'ner_tags' or the one that "
            "--label_column_name names");
  EXPECT_EQ(message_of(ErrorCode::kNotFound, [&] { rows(row, {.tags = "tags"}); }),
            "f.json: no column 'tags', which --label_column_name names; there are 'id', 'tokens', "
            "'pos_tags', 'ner_tags'");
}

TEST(WordTable, IdsOfClasses) {
  const WordTable named = rows(R"({"tokens": ["a", "b"], "ner_tags": [1, 0]})", {}, {"O", "B-X"});
  EXPECT_EQ(named.tags, (TagTexts{{"B-X", "O"}}));
  EXPECT_FALSE(named.numbered);
  EXPECT_TRUE(rows(R"({"tokens": ["a", "b"], "ner_tags": [10, 9]})").numbered);
  EXPECT_EQ(row_refused(R"({"tokens": ["a"], "ner_tags": [-1]})", {}, {"O", "B-X"}),
            "f.json:1: column 'ner_tags': found -1, expected an id of its 2 classes, 0 to 1");
}

TEST(WordTable, RowsThatAreRefused) {
  EXPECT_EQ(row_refused(R"({"tokens": ["a", "b"], "ner_tags": ["O"]})"),
            "f.json:1: found 1 tags in column 'ner_tags' and 2 words in column 'tokens', expected a tag for "
            "each word: "
            "mend the row, or name the columns with --text_column_name and --label_column_name");
  EXPECT_EQ(
      row_refused(
          "{\"tokens\": [\"a\"], \"ner_tags\": [\"O\"]}\n{\"tokens\": [\"a\"], \"ner_tags\": [null]}"),
      "f.json:2: column 'ner_tags': found no list of texts or numbers, expected a list of tags, such as "
      "[\"B-ORG\", \"O\"]; a file of a word a line needs a name that ends in .conll, .iob2 or .conllu");
  EXPECT_TRUE(contains(row_refused(R"({"tokens": "EU rejects", "ner_tags": ["O"]})"),
                       "f.json:1: column 'tokens': found 'EU rejects', expected a list of words"));
  EXPECT_EQ(row_refused(R"({"tokens": ["a"], "ner_tags": [""]})"),
            "f.json:1: column 'ner_tags': found an empty tag, expected one such as \"O\"");
  EXPECT_EQ(row_refused(R"({"tokens": [], "ner_tags": []})"),
            "f.json: no word in column 'tokens'; expected lists of words");
}

TEST(WordTable, EmptySentencesStayAsInRunNer) {
  WordTable table = rows("{\"tokens\": [\"a\"], \"ner_tags\": [\"O\"]}\n{\"tokens\": [], \"ner_tags\": []}");
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(table.empty.count, 1u);
  EXPECT_EQ(table.empty.first, 1u);
  table.truncate(1);
  EXPECT_EQ(table.empty.count, 0u);
  EXPECT_EQ(table.tags.size(), 1u);
}

TEST(WordTable, FilesOneAfterTheOther) {
  const TestFolder folder;
  const auto file = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.path() + "/" + name) << text;
    return folder.path() + "/" + name;
  };
  const std::string a = file("a.conll", "a O\n\nb O\n"), b = file("b.iob2", "\nc B-X\n");
  const std::string c = file("c.csv", "tokens,ner_tags\n\"[\"\"d\"\"]\",\"[\"\"O\"\"]\"\n");
  const WordTable table = read_words({a, b, c});
  EXPECT_EQ(table.words, (TagTexts{{"a"}, {"b"}, {"c"}, {"d"}}));
  EXPECT_EQ(table.place(2), b + ":2");
  EXPECT_EQ(table.place(3), c + ":2");
  const std::string d = file("d.txt", "e\n");
  EXPECT_EQ(message_of(ErrorCode::kInvalidData,
                       [&] {
                         read_words({a, d}, {.tags_needed = false});
                       }),
            d + ": found words without tags, unlike " + a + "; expected the same in all files");
}

TEST(WordTable, ParquetWithIdsOfClasses) {
  if (!parquet_status().ok()) GTEST_SKIP() << parquet_status().message();
  const WordTable table = read_words({source_path("tests/golden/data/words.parquet")});
  EXPECT_EQ(table.words, (TagTexts{{"Ada", "Lovelace", "wrote"}, {"She"}}));
  EXPECT_EQ(table.tags, (TagTexts{{"B-PER", "I-PER", "O"}, {"O"}}));
  EXPECT_EQ(table.classes, (Values{"O", "B-PER", "I-PER"}));
}

TEST(WordTable, PublishedSets) {
  for (const auto& set : golden("seqeval.json", "sets")) {
    const std::string file = set["file"];
    LATHE_NEEDS_DATA(file);
    const WordTable table = read_words({test_data_dir() + "/" + file});
    EXPECT_EQ(table.size(), set["sentences"]) << file;
    size_t tags = 0;
    for (const Values& sentence : table.tags) tags += sentence.size();
    EXPECT_EQ(tags, set["tags"]) << file;
    EXPECT_EQ(seqeval_metrics(seqeval(table.tags, with_mistakes(table.tags)), true),
              metrics_of(set["metrics"]))
        << file;
  }
}

}  // namespace
}  // namespace lathe
