#include "lathe/data/table_writer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lathe/data/test_data.h"

namespace lathe {
namespace {

std::string written(const Table& table, OutputFormat format, const std::vector<std::string>& added,
                    const std::vector<Cell>& cells, const std::string& line_end = "\n") {
  TableWriter writer(format, added, line_end);
  std::string out;
  writer.write(table, std::vector<std::vector<Cell>>(table.rows(), cells), out);
  return out;
}

TEST(TableWriter, CsvReadAgainHasTheSameCells) {
  const std::string csv = "a,\"b,\n\"\r\n\" x\r\ny\",5\" tall\r\n,\"\"\r\n\"\"\"\",\"a\rb\"\r\n\t,'\r\n";
  const Table table = parse_table(csv, TableFormat::kCsv, {}, "t");
  for (const char* end : {"\n", "\r\n"}) {
    const std::string out =
        written(table, OutputFormat::kCsv, {"label", "score"}, {Cell::of("x, \"y\""), Cell::of(0.5f)}, end);
    const Table again = parse_table(out, TableFormat::kCsv, {}, "t");
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(again.columns[i].name, table.columns[i].name);
      EXPECT_EQ(again.columns[i].values, table.columns[i].values);
    }
    EXPECT_EQ(again.at("label").values[3], "x, \"y\"");
    EXPECT_EQ(again.at("score").values[0], "0.5");
    EXPECT_TRUE(out.starts_with("a,\"b,\n\",label,score" + std::string(end))) << out;
  }
}

TEST(TableWriter, TsvIsNeverQuotedAndRefusesWhatItCannotHold) {
  const Table table = parse_table("a\tb\n\"x\t1\n", TableFormat::kTsv, {}, "t");
  EXPECT_EQ(written(table, OutputFormat::kTsv, {"labels"}, {Cell::of(std::vector<std::string>{"x", "y"})}),
            "a\tb\tlabels\n\"x\t1\tx, y\n");
  const Table lines = parse_table("a\n\"x\ny\"\n", TableFormat::kCsv, {}, "t");
  EXPECT_TRUE(contains(message_of(ErrorCode::kInvalidData,
                                  [&] { written(lines, OutputFormat::kTsv, {"label"}, {Cell::of("x")}); }),
                       "t:2: column 'a': found a tab or a line end"));
}

TEST(TableWriter, RowsOfJsonStayWhatTheyAre) {
  const TableOptions keep{.keep_objects = true};
  const Table table =
      parse_table("{\"a\": 1.50, \"n\": {\"b\": [null]}, \"s\": \"\\u00e9\"} \r\n{}\n{\"a\":1}",
                  TableFormat::kJsonLines, keep, "t");
  EXPECT_EQ(
      written(table, OutputFormat::kJsonLines, {"label", "score"}, {Cell::of("x\""), Cell::of(NAN)}),
      "{\"a\": 1.50, \"n\": {\"b\": [null]}, \"s\": \"\\u00e9\", \"label\": \"x\\\"\", \"score\": null}\n"
      "{\"label\": \"x\\\"\", \"score\": null}\n{\"a\":1, \"label\": \"x\\\"\", \"score\": null}\n");
  EXPECT_EQ(written(table, OutputFormat::kCsv, {"score"}, {Cell::of(0.1f)}),
            "a,n,s,score\n1.5,\"{\"\"b\"\":[null]}\",é,0.1\n,,,0.1\n1,,,0.1\n");
  const Table csv = parse_table("a,b\n007,\"é\n\"\n", TableFormat::kCsv, {}, "t");
  EXPECT_EQ(
      written(csv, OutputFormat::kJsonLines, {"labels"}, {Cell::of(std::vector<std::string>{"x", "y"})}),
      "{\"a\": \"007\", \"b\": \"é\\n\", \"labels\": [\"x\", \"y\"]}\n");
}

TEST(TableWriter, NumbersOfJsonKeepTheirDigits) {
  const TableOptions keep{.keep_objects = true, .keep_numbers = true};
  const std::string row =
      R"({"id" : 12345678901234567890123, "p": -0.10 , "e": 1E2, "s": "a\"]\\", "l": [1, 2]})";
  const std::string csv = "id,p,e,s,l,score\n12345678901234567890123,-0.10,1E2,\"a\"\"]\\\",\"[1,2]\",0.5\n";
  const Table lines = parse_table(row, TableFormat::kJsonLines, keep, "t");
  EXPECT_EQ(written(lines, OutputFormat::kCsv, {"score"}, {Cell::of(0.5f)}), csv);
  // A model reads what it reads in a training.
  const Table read = parse_table(row, TableFormat::kJsonLines, {}, "t");
  for (const Column& column : lines.columns) EXPECT_EQ(column.values, read.at(column.name).values);
  EXPECT_EQ(lines.at("e").values[0], "100.0");
  const std::string document =
      "{\"of\": [[1], {}],\n\"data\": [\n" + row + ",\r\n  {\"id\": 1,\n   \"p\": {\n}}]}\n";
  const Table table = parse_table(document, TableFormat::kJson, keep, "t");
  EXPECT_EQ(written(table, OutputFormat::kCsv, {"score"}, {Cell::of(0.5f)}), csv + "1,{},,,,0.5\n");
  EXPECT_EQ(table.lines, (std::vector<uint32_t>{3, 4}));
  EXPECT_EQ(written(table, OutputFormat::kJsonLines, {"score"}, {Cell::of(0.5f)}),
            row.substr(0, row.size() - 1) + ", \"score\": 0.5}\n{\"id\": 1, \"p\": {}, \"score\": 0.5}\n");
}

TEST(TableWriter, ColumnsThatComeLateAreRefusedWhereThereIsAHeader) {
  const auto part = [](const char* json) {
    return parse_table(json, TableFormat::kJsonLines, {.keep_objects = true}, "t");
  };
  const std::vector<std::vector<Cell>> cells{{Cell::of("x")}};
  std::string out;
  TableWriter csv(OutputFormat::kCsv, {"label"}), json(OutputFormat::kJsonLines, {"label"});
  csv.write(part("{\"a\": 1, \"b\": 2}"), cells, out);
  csv.write(part("{\"b\": 3}"), cells, out);
  EXPECT_EQ(out, "a,b,label\n1,2,x\n,3,x\n");
  EXPECT_TRUE(contains(message_of(ErrorCode::kInvalidData,
                                  [&] { csv.write(part("{\"a\": 1}\n{\"late\": null}"), cells, out); }),
                       "from t:2 on there is 'late'"));
  json.write(part("{\"late\": 3}"), cells, out);
  for (TableWriter* writer : {&csv, &json})
    EXPECT_TRUE(
        contains(message_of(ErrorCode::kInvalidData,
                            [&] { writer->write(part("{}\n{\"a\": 1}\n{\"label\": 3}"), cells, out); }),
                 "from t:3 on there is 'label', which is to be added"));
}

TEST(TableWriter, AddedNamesAreFree) {
  const auto with = [](const char* header) {
    return free_names(parse_table(std::string(header) + "\n1,2,3\n", TableFormat::kCsv, {}, "t"),
                      {"label", "score"});
  };
  EXPECT_EQ(with("a,b,c"), (Values{"label", "score"}));
  EXPECT_EQ(with("a,b,label"), (Values{"predicted_label", "predicted_score"}));
  EXPECT_EQ(with("a,score,predicted_label"), (Values{"predicted_2_label", "predicted_2_score"}));
}

TEST(TableWriter, FormatsComeFromTheName) {
  EXPECT_EQ(output_format_of("a.b.CSV"), OutputFormat::kCsv);
  EXPECT_EQ(output_format_of("a.ndjson"), OutputFormat::kJsonLines);
  EXPECT_EQ(output_format_of("a.parquet"), OutputFormat::kParquet);
  for (const char* other : {"a.json", "a.csv.gz", "a", "a.txt", "a.xlsx"})
    EXPECT_EQ(output_format_of(other), std::nullopt) << other;
}

}  // namespace
}  // namespace lathe
