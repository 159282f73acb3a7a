#include "lathe/data/table_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "lathe/core/test_folder.h"
#include "lathe/data/table_parsers.h"
#include "lathe/data/test_data.h"

namespace lathe {
namespace {

/// What `read_table` says of the same file, put together from the parts.
Table all_parts(const std::string& path, TableFormat format, size_t* parts = nullptr) {
  Table all;
  TableReader reader(path);
  reader.for_each_part(format, {}, [&](const Table& part) {
    if (parts != nullptr) ++*parts;
    if (all.columns.empty()) {
      all = part;
      return;
    }
    ASSERT_EQ(all.columns.size(), part.columns.size());
    for (size_t i = 0; i < all.columns.size(); ++i) {
      EXPECT_EQ(all.columns[i].name, part.columns[i].name);
      std::vector<std::string>& values = all.columns[i].values;
      values.insert(values.end(), part.columns[i].values.begin(), part.columns[i].values.end());
    }
    all.lines.insert(all.lines.end(), part.lines.begin(), part.lines.end());
  });
  EXPECT_EQ(reader.done(), reader.total());
  return all;
}

std::string written(const TestFolder& folder, const std::string& name, const std::string& bytes) {
  std::ofstream(folder / name, std::ios::binary) << bytes;
  return folder / name;
}

void expect_same(const Table& found, const Table& wanted) {
  ASSERT_EQ(found.columns.size(), wanted.columns.size());
  for (size_t i = 0; i < wanted.columns.size(); ++i) {
    EXPECT_EQ(found.columns[i].name, wanted.columns[i].name);
    EXPECT_EQ(found.columns[i].values, wanted.columns[i].values);
  }
  EXPECT_EQ(found.lines, wanted.lines);
}

TEST(TableReader, PartsOfALargeFileAreTheTable) {
  const TestFolder folder;
  std::string tsv = "a\tb\n", json;
  for (int i = 0; i < 60'000; ++i) {
    tsv += fmt::format("row \"{}\té {}\n{}", i, i, i % 9 == 0 ? "\r\n" : "");
    json += fmt::format("{{\"a\": \"row {}\", \"b\": {}}}\n{}", i, i, i % 9 == 0 ? "\n" : "");
  }
  size_t parts = 0;
  for (const auto& [name, bytes, format] :
       {std::tuple{"t.tsv", tsv, TableFormat::kTsv}, std::tuple{"t.jsonl", json, TableFormat::kJsonLines},
        std::tuple{"t.json", json, TableFormat::kJson},
        std::tuple{"list.json", std::string("[{\"a\": 1},\n{\"a\": 2}]"), TableFormat::kJson}}) {
    const std::string path = written(folder, name, bytes);
    expect_same(all_parts(path, format, &parts), read_table(path));
  }
  EXPECT_GT(parts, 6u);
}

TEST(TableReader, RowsWithLineEndsInQuotesAreWhole) {
  const TestFolder folder;
  std::string csv =
      "\xEF\xBB\xBF"
      "a,b\r\n";
  for (int i = 0; i < 60'000; ++i)
    csv += fmt::format("\"row {}, \"\"é\"\"\r\n\nof {}\",{}\r\n", i, i % 7, i % 5 == 0 ? "\"\n\"" : "x");
  csv += "the last,without an end";
  size_t parts = 0;
  const std::string path = written(folder, "t.csv", csv);
  expect_same(all_parts(path, TableFormat::kCsv, &parts), read_table(path));
  EXPECT_GT(parts, 1u);
}

TEST(TableReader, OnlyARowOfCsvEndsInACarriageReturn) {
  const TestFolder folder;
  const std::string half(size_t{1} << 20, 'x');
  for (const auto& [name, bytes, format] :
       {std::tuple{"t.label", half + "\r" + half + "\nthe next\n", TableFormat::kLines},
        std::tuple{"t.tsv", "a\tb\n" + half + "\r" + half + "\tx\ny\tz\n", TableFormat::kTsv},
        std::tuple{"t.jsonl", "{\"a\": \"" + half + "\",\r \"b\": \"" + half + "\"}\n{\"a\": \"x\"}\n",
                   TableFormat::kJsonLines}}) {
    const std::string path = written(folder, name, bytes);
    expect_same(all_parts(path, format), parse_table(bytes, format, {}, path));
  }
}

TEST(TableReader, BlankLinesMayFillTheLastPart) {
  const TestFolder folder;
  std::string bytes;
  while (bytes.size() < size_t{1} << 20) bytes += "{\"a\": \"0123456789ABCDE\"}       \n";  // of 32 bytes
  ASSERT_EQ(bytes.size(), size_t{1} << 20);
  const std::string path = written(folder, "t.jsonl", bytes + "\n");
  EXPECT_EQ(all_parts(path, TableFormat::kJsonLines).rows(), (size_t{1} << 20) / 32);
  size_t rows = 0;  // and rows without any key
  TableReader(written(folder, "t.jsonl", bytes + "{}\n{}\n"))
      .for_each_part(TableFormat::kJsonLines, {}, [&](const Table& part) { rows += part.rows(); });
  EXPECT_EQ(rows, (size_t{1} << 20) / 32 + 2);
  for (const std::string blank : {"{}\n{}\n", " \n\n"})
    EXPECT_TRUE(
        contains(message_of(ErrorCode::kInvalidData,
                            [&] { all_parts(written(folder, "t.jsonl", blank), TableFormat::kJsonLines); }),
                 "expected"));
}

TEST(TableReader, APieceEndsBeforeTheRowThatIsCut) {
  const std::string csv = "a,b\n\"x\"\"\r\n,\",1\n2,\"\n\"\"\"\r\n\n\"é\",\"3\"\r4,5\n";
  const Table wanted = parse_table(csv, TableFormat::kCsv, {}, "t");
  for (size_t cut = 0; cut <= csv.size(); ++cut) {
    Table table{.origin = "t", .columns = {}, .lines = {}, .later_files = {}};
    table_detail::Piece first{std::string_view(csv).substr(0, cut), 1, false};
    table_detail::parse_csv(first, {}, table);
    const size_t taken = cut - first.bytes.size();
    table_detail::Piece rest{std::string_view(csv).substr(taken), first.line};
    Table more{.origin = "t", .columns = {}, .lines = {}, .later_files = {}};
    TableOptions options;
    for (const Column& column : table.columns) options.column_names.push_back(column.name);
    table_detail::parse_csv(rest, options, more);
    if (table.columns.empty()) table = more, more = {};
    for (size_t i = 0; i < more.columns.size(); ++i)
      table.columns[i].values.insert(table.columns[i].values.end(), more.columns[i].values.begin(),
                                     more.columns[i].values.end());
    table.lines.insert(table.lines.end(), more.lines.begin(), more.lines.end());
    expect_same(table, wanted);
  }
}

TEST(TableReader, FaultsAreNamedWithTheirLineInTheFile) {
  const TestFolder folder;
  std::string rows = "a,b\n";
  for (int i = 2; i <= 300'000; ++i) rows += "some text,1\n";
  const auto fault = [&](const std::string& more) {
    const std::string path = written(folder, "t.csv", rows + more);
    return message_of(ErrorCode::kInvalidData, [&] { all_parts(path, TableFormat::kCsv); })
        .substr(path.size());
  };
  EXPECT_TRUE(fault("1,2,3\n").starts_with(":300001: found 3 fields, expected 2"));
  EXPECT_TRUE(fault("x\xE4,1\n").starts_with(":300001: byte 2 of the line is 0xe4"));
  EXPECT_TRUE(fault("\"x,1\n").starts_with(":300001: a quote opens here"));
  rows = "a,b\n\"x,1\n" + std::string(size_t{65} << 20, 'x');
  EXPECT_TRUE(fault("").starts_with(":2: found a row of more than"));
  rows = "a,b\n";
  EXPECT_EQ(fault(""), ": a header, but no row; expected at least one");
  rows = "";
  EXPECT_TRUE(fault("").find("expected a table with at least one row") != std::string::npos);
}

}  // namespace
}  // namespace lathe
