#include "lathe/data/table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "lathe/core/test_folder.h"
#include "lathe/data/test_data.h"

namespace lathe {
namespace {

Table parse(std::string_view bytes, TableFormat format, const TableOptions& options = {}) {
  return parse_table(bytes, format, options, "t");
}

std::string error_of(std::string_view bytes, TableFormat format, const TableOptions& options = {}) {
  return message_of(ErrorCode::kInvalidData, [&] { parse(bytes, format, options); });
}

TEST(Table, TsvIsNeverQuoted) {
  const Table t =
      parse("\xEF\xBB\xBFQuality\t#1 String\r\n1\t\"open, quote\r\n\r\n0\tx\n", TableFormat::kTsv);
  EXPECT_EQ(t.at("Quality").values, (Values{"1", "0"}));
  EXPECT_EQ(t.at("#1 String").values, (Values{"\"open, quote", "x"}));
  EXPECT_EQ(t.at("Quality").type, ColumnType::kInteger);
  EXPECT_EQ(t.at("#1 String").type, ColumnType::kString);
  EXPECT_EQ(t.place(1), "t:4");
}

TEST(Table, TsvWithoutHeaderTakesNames) {
  const Table t = parse("gj04\t1\t\tA b.\n", TableFormat::kTsv, {.column_names = {"a", "b", "c", "d"}});
  EXPECT_EQ(t.rows(), 1u);
  EXPECT_EQ(t.at("d").values, (Values{"A b."}));
  EXPECT_EQ(t.at("c").type, ColumnType::kNull);
}

TEST(Table, RaggedRowsAreErrorsOrLeftOut) {
  const std::string bytes = "a\tb\n1\t2\n3\n4\t5\t6\n7\t8\n";
  const std::string message = error_of(bytes, TableFormat::kTsv);
  EXPECT_TRUE(contains(message, "t:3: found 1 fields, expected 2")) << message;
  const Table t = parse(bytes, TableFormat::kTsv, {.skip_ragged = true});
  EXPECT_EQ(t.at("a").values, (Values{"1", "7"}));
  EXPECT_EQ(t.skipped_rows, 2);
  EXPECT_TRUE(contains(error_of("a,b\n1\n", TableFormat::kCsv), "t:2: found 1 fields, expected 2"));
}

TEST(Table, CsvFollowsRfc4180) {
  const Table t =
      parse("a,b\r\n\"x, \"\"y\"\"\nz\",1\r\n ,\"\"\n5\" tall,q\"r\"\n\n\"last\",", TableFormat::kCsv);
  EXPECT_EQ(t.at("a").values, (Values{"x, \"y\"\nz", " ", "5\" tall", "last"}));
  EXPECT_EQ(t.at("b").values, (Values{"1", "", "q\"r\"", ""}));
  EXPECT_EQ(t.lines, (std::vector<uint32_t>{2, 4, 5, 7}));
}

TEST(Table, CsvSeveralFieldsOfARowAreQuoted) {  // as pandas writes sentence pairs
  const Table t = parse("a,b,c\n\"x, 1\",\"y, 2\",\"\"\n\"x\",y,\"z\"\"\"\n", TableFormat::kCsv);
  EXPECT_EQ(t.at("a").values, (Values{"x, 1", "x"}));
  EXPECT_EQ(t.at("b").values, (Values{"y, 2", "y"}));
  EXPECT_EQ(t.at("c").values, (Values{"", "z\""}));
}

TEST(Table, CsvLinesMayEndInACarriageReturnAlone) {
  const Table t = parse("a,b\r1,2\r3,4\r", TableFormat::kCsv);
  EXPECT_EQ(t.at("b").values, (Values{"2", "4"}));
}

TEST(Table, CsvLinesOfBlanksAreLeftOut) {  // as pandas leaves them out, of one column and of several
  const Table t = parse(" \na,b\n \t\n1,2\n\t\n ,3\n", TableFormat::kCsv);
  EXPECT_EQ(t.at("a").values, (Values{"1", " "}));
  EXPECT_EQ(t.lines, (std::vector<uint32_t>{4, 6}));
  EXPECT_EQ(parse("a\nx\n  \n\" \"\n", TableFormat::kCsv).at("a").values, (Values{"x", " "}));
}

TEST(Table, CsvTextBehindAClosingQuoteIsKept) {
  EXPECT_EQ(parse("a,b\n\"x\"y\"z,1\n", TableFormat::kCsv).at("a").values, (Values{"xy\"z"}));
}

TEST(Table, CsvOpenQuoteNamesItsLine) {
  EXPECT_TRUE(contains(error_of("a,b\n1,2\n\"x\n\n,3\n", TableFormat::kCsv), "t:3: a quote opens here"));
}

TEST(Table, TypesComeFromAllValues) {
  const Table t = parse("i,f,s,n,m\n1,1.5,a,,+7\n-2,3,1,,\n,1e-3,2,,8\n", TableFormat::kCsv);
  EXPECT_EQ(t.at("i").type, ColumnType::kInteger);
  EXPECT_EQ(t.at("f").type, ColumnType::kFloat);
  EXPECT_EQ(t.at("s").type, ColumnType::kString);
  EXPECT_EQ(t.at("n").type, ColumnType::kNull);
  EXPECT_EQ(t.at("m").type, ColumnType::kInteger);
  EXPECT_EQ(t.at("f").values[2], "1e-3");
  for (const char* word : {"nan", "inf", "0x10", "1e", ".", "-", "+", "+-5", " ", "1 2", "1_000"})
    EXPECT_EQ(parse("a,b\n1," + std::string(word) + "\n", TableFormat::kCsv).at("b").type,
              ColumnType::kString)
        << word;
}

TEST(Table, JsonKeepsTheOrderOfItsKeys) {
  const Table t = parse(R"([
    {"z": "text", "label": 1, "f": 0.5, "tags": ["a", "b"], "flag": true, "meta": {"x": [1]}},
    {"label": 2, "z": "1", "late": null, "tags": []}])",
                        TableFormat::kJson);
  ASSERT_EQ(t.columns.size(), 7u);
  EXPECT_EQ(t.columns[0].name, "z");
  EXPECT_EQ(t.at("z").type, ColumnType::kString);
  EXPECT_EQ(t.at("label").type, ColumnType::kInteger);
  EXPECT_EQ(t.at("f").values, (Values{"0.5", ""}));
  EXPECT_EQ(t.at("tags").type, ColumnType::kList);
  EXPECT_EQ(list_elements(t.at("tags").values[0]), (Values{"a", "b"}));
  for (const char* none : {"", "a", "1", R"({"a": 1})", "[[1]]", "[1"})
    EXPECT_THROW(list_elements(none), Error);
  EXPECT_EQ(t.at("flag").values, (Values{"True", ""}));
  EXPECT_EQ(t.at("meta").type, ColumnType::kOther);
  EXPECT_EQ(t.at("late").type, ColumnType::kNull);
  EXPECT_EQ(t.place(1), "t:3");
}

TEST(Table, JsonComesInFourShapes) {
  for (const char* bytes :
       {R"([{"a": "x"}, {"a": "y"}])", R"({"version": "1", "data": [{"a": "x"}, {"a": "y"}]})",
        "{\"a\": \"x\"}\n{\"a\": \"y\"}\n", "\n{\"a\": \"x\"}\n\n{\"a\": \"y\"}"})
    EXPECT_EQ(parse(bytes, TableFormat::kJson).at("a").values, (Values{"x", "y"})) << bytes;
  EXPECT_EQ(parse("{\"a\": \"x\"}", TableFormat::kJson).rows(), 1u);
}

TEST(Table, JsonErrorsNameThePlace) {
  EXPECT_TRUE(contains(error_of("[{\"a\": 1},\n {\"a\": }]", TableFormat::kJson), "t:2:8: not valid JSON"));
  EXPECT_TRUE(
      contains(error_of("{\"a\": 1}\n{\"a\": 2\n", TableFormat::kJsonLines), "t:2:8: not valid JSON"));
  EXPECT_TRUE(contains(error_of("[{\"a\": 1}, 5]", TableFormat::kJson), "expected an object"));
  EXPECT_TRUE(contains(error_of("{\"rows\": [1],\n\"b\": 2}", TableFormat::kJson), "found object"));
  error_of("[]", TableFormat::kJson);
  error_of("{}", TableFormat::kJsonLines);
}

TEST(Table, ManyJsonRowsAreReadAlikeInEveryShape) {
  std::string lines, list;
  for (int i = 0; i < 20'000; ++i) {
    const std::string row =
        fmt::format(R"({{"text": "row {}", "label": {}, "more": [{{"n": {{}}}}]}})", i, i % 3);
    lines += row + "\n";
    list += (i == 0 ? "" : ",\n") + row;
  }
  const Table wanted = parse(lines, TableFormat::kJsonLines);
  const auto expect_same = [&](const Table& found) {
    ASSERT_EQ(found.columns.size(), wanted.columns.size());
    for (size_t c = 0; c < wanted.columns.size(); ++c) {
      EXPECT_EQ(found.columns[c].values, wanted.columns[c].values);
      EXPECT_EQ(found.columns[c].type, wanted.columns[c].type);
    }
    EXPECT_EQ(found.rows(), wanted.rows());
  };
  expect_same(parse("[" + list + "]", TableFormat::kJson));
  expect_same(parse("{\"data\": [" + list + "]}", TableFormat::kJson));
  EXPECT_TRUE(contains(error_of("[" + list + ",\n{\"b\": [{\"a\": 1,\n\"a\": 2}]}]", TableFormat::kJson),
                       "t:20001:8: found the key \"a\" twice"));
}

TEST(Table, AJsonKeyTwiceInOneObjectIsRefusedWithItsLine) {
  const std::string wanted = " found the key \"a\" twice in one object";
  EXPECT_TRUE(contains(error_of("{\"a\": 1}\n{\"a\": 1, \"b\": 2, \"a\": 3}\n", TableFormat::kJsonLines),
                       "t:2:1:" + wanted));
  EXPECT_TRUE(
      contains(error_of("[{\"a\": 1},\n{\"b\": [{}, {}]},\n{\"a\": 1, \"a\": 3}]", TableFormat::kJson),
               "t:3:1:" + wanted));
  EXPECT_TRUE(contains(error_of("{\"n\": 1, \"data\": [{\"b\": {\"c\": 0}},\n{\"b\": {\"a\": 1, \"a\": 3}}]}",
                                TableFormat::kJson),
                       "t:2:7:" + wanted));
  EXPECT_EQ(parse("[{\"a\": {\"a\": [{\"a\": 1}, {\"a\": 1}]}}, {\"a\": 1}]", TableFormat::kJson).rows(), 2u);
}

TEST(Table, JsonKeysThatNeverComeAgainAreRefusedInsteadOfFillingTheMemory) {
  std::string rows;
  for (int i = 1; i <= 1001; ++i) rows += fmt::format("{{\"text\": \"x\", \"key{}\": 1}}\n", i);
  const std::string message = error_of(rows, TableFormat::kJsonLines);
  EXPECT_TRUE(contains(message, "t:1000: found 'key1000', a key beyond the 1000 before it")) << message;
  rows.resize(rows.find("{\"text\": \"x\", \"key1000\""));
  EXPECT_EQ(parse(rows, TableFormat::kJsonLines).columns.size(), 1000u);
}

TEST(Table, JsonNumbersBeyondADoubleAreInvalidData) {
  for (const char* text : {"[{\"label\": 1e999}]", "80e444444444444;", "{\"label\": -1e400}\n"}) {
    const std::string message =
        message_of(ErrorCode::kInvalidData, [&] { parse_table(text, TableFormat::kJson, {}, "t"); });
    EXPECT_NE(message.find("not valid JSON: number overflow"), std::string::npos) << message;
  }
  EXPECT_TRUE(contains(error_of("[{\"a\": \"x\"},\n{\"a\": [1e999]}]", TableFormat::kJson),
                       "t:2:8: not valid JSON: number overflow parsing '1e999'"));
}

TEST(Table, TrecLinesAreTextAndCoarseLabel) {
  const Table t = parse("DESC:manner How did it ?\nENTY:cremat What films ?\n", TableFormat::kTrec);
  EXPECT_EQ(t.at("text").values, (Values{"How did it ?", "What films ?"}));
  EXPECT_EQ(t.at("label").values, (Values{"DESC", "ENTY"}));
  EXPECT_TRUE(contains(error_of(":manner How did it ?\n", TableFormat::kTrec), "t:1: found ':manner"));
  EXPECT_TRUE(
      contains(error_of("DESC:manner How\nno label here\n", TableFormat::kTrec), "t:2: found 'no label"));
}

TEST(Table, BadFilesAreNamedWithTheirPlace) {
  EXPECT_TRUE(contains(error_of("a\tb\n1\tx\xE4y\n", TableFormat::kTsv), "t:2: byte 4 of the line is 0xe4"));
  EXPECT_TRUE(contains(error_of("", TableFormat::kTsv), "empty"));
  EXPECT_TRUE(contains(error_of(" \n\n", TableFormat::kJson), "empty"));
  EXPECT_TRUE(contains(error_of("a\tb\n", TableFormat::kTsv), "no row"));
  EXPECT_TRUE(
      contains(error_of("a\tb\ta\n1\t2\t3\n", TableFormat::kTsv), "columns 1 and 3 are both named 'a'"));
  EXPECT_TRUE(contains(error_of("text;label\na, b;x\n", TableFormat::kCsv),
                       "t:1: found one column, 'text;label', expected columns parted by commas"));
  EXPECT_TRUE(contains(error_of("text\tlabel\na\tx\n", TableFormat::kCsv), "parted by tabs as .tsv"));
  EXPECT_EQ(parse("a;b,label\nx,1\n", TableFormat::kCsv).columns[0].name, "a;b");
  const std::string missing =
      message_of(ErrorCode::kNotFound, [] { parse("a,b\n1,2\n", TableFormat::kCsv).at("label"); });
  EXPECT_EQ(missing, "t: no column 'label'; it has 'a', 'b': rename one in the header");
}

TEST(Table, FormatComesFromTheName) {
  EXPECT_EQ(table_format_of("x/train.TSV"), TableFormat::kTsv);
  EXPECT_EQ(table_format_of("a.b.csv.gz"), TableFormat::kCsv);
  EXPECT_EQ(table_format_of("a.jsonl"), TableFormat::kJsonLines);
  EXPECT_EQ(table_format_of("train_5500.label"), TableFormat::kTrec);
  EXPECT_EQ(table_format_of("a.parquet"), std::nullopt);
  message_of(ErrorCode::kUsage, [] { read_table("a.xlsx"); });
  message_of(ErrorCode::kNotFound, [] { read_table("a.parquet"); });
  message_of(ErrorCode::kNotFound, [] { read_table("/no/such/file.tsv"); });
}

TEST(Table, RowsOfSeveralFilesKnowTheirs) {
  const TestFolder folder;
  std::vector<std::string> paths;
  for (const char* name : {"one.csv", "two.csv", "three.csv"}) {
    paths.push_back(folder / name);
    std::ofstream(paths.back()) << "a,label\n\nx,1\n" << (paths.size() == 2 ? "y,2\n" : "");
  }
  const Table all = read_tables(paths);
  ASSERT_EQ(all.rows(), 4u);
  EXPECT_EQ(all.place(0), paths[0] + ":3");
  EXPECT_EQ(all.place(1), paths[1] + ":3");
  EXPECT_EQ(all.place(2), paths[1] + ":4");
  EXPECT_EQ(all.place(3), paths[2] + ":3");
}

TEST(Table, SeveralFilesAreOneTable) {
  const TestFolder folder;
  const auto with = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(folder / name) << bytes;
    return folder / name;
  };
  const std::string ten = with("ten.csv", "text,label\nx,10\n");
  EXPECT_EQ(read_tables({ten, with("two.csv", "label,text\ntwo,y\n")}).at("label").type, ColumnType::kString);
  for (const char* header : {"text,label,more\ny,1,z\n", "text,more\ny,1\n"}) {
    const std::string other = with("other.csv", header);
    EXPECT_EQ(message_of(ErrorCode::kInvalidData,
                         [&] {
                           read_tables({ten, other});
                         }),
              other + ": its columns are not those of " + ten + "; expected the same in every file");
  }
}

TEST(Table, ReadsPackedFiles) {
  LATHE_NEEDS_DATA("trec/train_5500.label");
  EXPECT_EQ(read_table(test_data_dir() + "/trec/train_5500.label").rows(), 5452u);
  const TestFolder folder;
  const std::string packed = folder / "t.label.gz";
  if (std::system(("gzip -c '" + test_data_dir() + "/trec/train_5500.label' > '" + packed + "'").c_str()) !=
      0)
    GTEST_SKIP() << "needs gzip";
  EXPECT_EQ(read_table(packed).rows(), 5452u);
}

}  // namespace
}  // namespace lathe
