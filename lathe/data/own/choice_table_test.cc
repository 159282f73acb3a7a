#include "lathe/data/own/choice_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lathe/core/error.h"

namespace lathe {
namespace {

using Endings = std::vector<std::string>;

Table choice_csv(std::string_view bytes) { return parse_table(bytes, TableFormat::kCsv, {}, "own.csv"); }
Table choice_lines(std::string_view bytes) {
  return parse_table(bytes, TableFormat::kJsonLines, {}, "own.jsonl");
}

std::string choice_fault(const Table& table, const ChoiceColumns& columns = {}) {
  try {
    choices_of_table(table, columns);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

constexpr std::string_view kHead = "sent1,sent2,ending0,ending1,ending2,label\n";

TEST(ChoiceTable, HasSwagsColumns) {
  const ChoiceTable table =
      choices_of_table(choice_csv(std::string(kHead) + "A man sits.,He,eats.,runs.,sings.,2\n"), {});
  EXPECT_EQ(table.contexts, Endings{"A man sits."});
  EXPECT_EQ(table.endings[0], (Endings{"eats.", "runs.", "sings."}));
  EXPECT_EQ(table.labels, std::vector<int32_t>{2});
  EXPECT_EQ(table.second_text(0, 1), "He runs.");
  EXPECT_EQ(table.place(0), "own.csv:2");
}

TEST(ChoiceTable, RowsHaveAsManyEndingsAsTheyName) {
  const ChoiceTable table =
      choices_of_table(choice_csv(std::string(kHead) + "A,He,eats.,runs.,,0\nB,,eats.,runs.,sings.,1\n"), {});
  EXPECT_EQ(table.endings[0].size(), 2u);
  EXPECT_EQ(table.endings[1].size(), 3u);
  EXPECT_EQ(table.second_text(1, 0), "eats.");
}

TEST(ChoiceTable, ReadsListsAndNamedColumns) {
  const ChoiceTable table = choices_of_table(
      choice_lines("{\"query\": \"Why?\", \"choices\": [\"a\", \"b\", \"c\"], \"gold\": 1}\n"),
      {.context = "query", .question = {}, .endings = {}, .label = "gold"});
  EXPECT_EQ(table.endings[0], (Endings{"a", "b", "c"}));
  EXPECT_EQ(table.labels, std::vector<int32_t>{1});
  EXPECT_EQ(table.second_text(0, 2), "c");
}

TEST(ChoiceTable, OfTestDataThereAreNoLabels) {
  const Table table = choice_csv(std::string(kHead) + "A,He,eats.,runs.,sings.,-1\n");
  EXPECT_TRUE(choices_of_table(table, {}).labels.empty());
  ChoiceColumns needed;
  needed.labels_needed = true;
  EXPECT_EQ(
      choice_fault(table, needed),
      "own.csv:2: column 'label': found '-1', expected the number of the right ending, 0 to 2: mend the "
      "row, or name the column with --label_column_name");
}

TEST(ChoiceTable, NamesTheRowThatCannotBeUsed) {
  const std::string head(kHead);
  EXPECT_EQ(choice_fault(choice_csv(head + "A,He,eats.,runs.,sings.,3\n")),
            "own.csv:2: column 'label': found '3', expected the number of the right ending, 0 to 2: mend the "
            "row, or name the column with --label_column_name");
  EXPECT_EQ(choice_fault(choice_csv(head + "A,He,eats.,,sings.,0\n")),
            "own.csv:2: ending 1 is empty (column 'ending1'), expected a text: mend or drop the row");
  EXPECT_EQ(
      choice_fault(choice_csv(head + "A,He,eats.,runs.,,0\nA,He,eats.,,,0\n")),
      "own.csv:3: found 1 ending in columns 'ending0' to 'ending2', expected two or more to choose from: "
      "mend or drop the row");
  EXPECT_EQ(choice_fault(choice_lines("{\"sent1\": \"A\", \"endings\": [\"a\", \" \"], \"label\": 0}\n")),
            "own.jsonl:1: ending 1 is empty (column 'endings'), expected a text: mend or drop the row");
  EXPECT_EQ(choice_fault(choice_lines("{\"sent1\": \"A\", \"endings\": \"a, b\", \"label\": 0}\n")),
            "own.jsonl:1: column 'endings': found 'a, b', expected a list of endings, such as [\"runs.\", "
            "\"sleeps.\"]");
}

TEST(ChoiceTable, ARowNeedsAContextOrAQuestion) {
  const std::string head(kHead);
  EXPECT_EQ(choices_of_table(choice_csv(head + ",He,eats.,runs.,sings.,0\n"), {}).contexts[0], "");
  EXPECT_EQ(choice_fault(choice_csv(head + "A,He,eats.,runs.,,0\n , ,eats.,runs.,,0\n")),
            "own.csv:3: column 'sent1': found an empty text and none in 'sent2', expected a context: mend or "
            "drop the row");
  EXPECT_EQ(choice_fault(choice_csv("sent1,ending0,ending1,label\n,b,c,1\n")),
            "own.csv:2: column 'sent1': found an empty text, expected a context: mend or drop the row");
}

TEST(ChoiceTable, HasLabelsOfAllRowsOrOfNone) {
  const std::string rows = std::string(kHead) + "A,He,eats.,runs.,sings.,1\nB,He,eats.,runs.,sings.,";
  EXPECT_EQ(choices_of_table(choice_csv(rows + "2\n"), {}).labels, (std::vector<int32_t>{1, 2}));
  for (const auto& [cell, found] : {std::pair{"", "no label"}, {"-1", "'-1'"}})
    EXPECT_EQ(
        choice_fault(choice_csv(rows + cell + "\n")),
        fmt::format("own.csv:3: column 'label': found {}, expected the number of the right ending, 0 to "
                    "2: mend the row, or name the column with --label_column_name",
                    found));
}

TEST(ChoiceTable, NamesTheFlagOfTheCommandThatReads) {
  const Table table = choice_csv("text,ending0,ending1\nA,b,c\n");
  const std::string found = "own.csv: no column 'sent1': found 'text', 'ending0', 'ending1'; ";
  ChoiceColumns asked;
  asked.context = "sent1";
  EXPECT_EQ(choice_fault(table, asked), found + "--context_column_name names the column");
  asked.reads_labels = false;
  EXPECT_EQ(choice_fault(table, asked),
            found + "--column CONTEXT,ENDINGS or CONTEXT,QUESTION,ENDINGS names the column");
}

TEST(ChoiceTable, NamesTheColumnThatIsMissing) {
  EXPECT_EQ(choice_fault(choice_csv("text,ending0,ending1\nA,b,c\n")),
            "own.csv: no column 'sent1': found 'text', 'ending0', 'ending1'; --context_column_name names "
            "another one");
  EXPECT_EQ(
      choice_fault(choice_csv("sent1,answers\nA,b\n")),
      "own.csv: no column 'ending0': found 'sent1', 'answers'; --endings_column_name (a column of lists) "
      "names another one");
  ChoiceColumns needed;
  needed.labels_needed = true;
  EXPECT_EQ(choice_fault(choice_csv("sent1,ending0,ending1,gold\nA,b,c,1\n"), needed),
            "own.csv: no column 'label': found 'sent1', 'ending0', 'ending1', 'gold'; --label_column_name "
            "names another one");
  EXPECT_EQ(choice_fault(choice_csv("sent1,ending0,label\nA,b,0\n")),
            "own.csv: found the column 'ending0' and no 'ending1', expected two endings or more");
}

}  // namespace
}  // namespace lathe
