#include "lathe/data/own/own_columns.h"

#include <gtest/gtest.h>

#include "lathe/data/dataset.h"
#include "lathe/data/test_data.h"

namespace lathe {
namespace {

Table table_of(std::string_view bytes) { return parse_table(bytes, TableFormat::kCsv, {}, "own.csv"); }

ColumnChoice chosen(std::string_view bytes, const OwnColumns& columns = {}) {
  return choose_columns(table_of(bytes), columns);
}

constexpr std::string_view kTickets =
    "ticket_id,subject,body,queue,label\nT-1,no invoice,I need it,a,billing\nT-2,it breaks,every day,a,bug\n";

TEST(OwnColumns, IdsAreNoTexts) {
  const ColumnChoice choice = chosen(kTickets);
  EXPECT_EQ(choice.texts, (Values{"subject", "body"}));
  EXPECT_EQ(choice.left_out, (Values{"ticket_id", "queue"}));
  EXPECT_EQ(choice.like_ids, Values{"ticket_id"});
  EXPECT_EQ(column_notice("own.csv", choice),
            "own.csv: the text is 'subject', 'body', as a pair; left out: 'ticket_id' (looks like ids), "
            "'queue'; --text_column_names A,B names the columns of the text and joins them");
}

TEST(OwnColumns, IdsAreDifferentWholeNumbersOrWordsUnderSuchAName) {
  const auto is_id = [](const char* column) {
    return looks_like_ids(table_of(std::string(column) + "\n").columns[0]);
  };
  for (const char* column : {"nr\n1\n2\n3", "id\na\nb", "ID\na\na", "idx\n1\n1", "ticketId\nx1\nx2",
                             "user-id\na\nb", "order_uuid\na-b\nc-d", "n\n7"})
    EXPECT_TRUE(is_id(column)) << column;
  for (const char* column : {"paid\nyes\nno", "void\na\nb", "stars\n1\n1", "score\n0.5\n1",
                             "id\ntwo words\nb", "PAID\na\nb", "text\na\nb"})
    EXPECT_FALSE(is_id(column)) << column;
}

TEST(OwnColumns, ATableWithNothingElseHasNothingToSay) {
  for (const char* bytes :
       {"text,label\na,x\n", ",text,empty,label\n0,a,,x\n1,b,,y\n", "sentence1,sentence2\na,b\n"})
    EXPECT_EQ(column_notice("own.csv", chosen(bytes)), "") << bytes;
  EXPECT_EQ(
      column_notice("own.csv", chosen("ticket_id,label\nT-1,x\n")),
      "own.csv: the text is 'ticket_id' (looks like ids); --text_column_names A,B names the columns of the "
      "text and joins them");
}

TEST(OwnColumns, NamedColumnsAreJoined) {
  const OwnColumns columns{.texts = {"subject", "body", "queue"}, .joined_by = " / "};
  const auto d = dataset_from_table(table_of(kTickets), nullptr, columns);
  EXPECT_EQ(d.first, (Values{"no invoice / I need it / a", "it breaks / every day / a"}));
  EXPECT_FALSE(d.has_pairs());
  const auto gaps = dataset_from_table(table_of("a,b,label\n,,x\n,y,x\nz,,x\n"), nullptr,
                                       {.texts = {"a", "b"}, .joined_by = " "});
  EXPECT_EQ(gaps.first, (Values{" ", " y", "z "}));
  EXPECT_EQ(gaps.empty_texts.count, 1u);
  EXPECT_EQ(gaps.first_empty_text, "own.csv:2");
}

TEST(OwnColumns, TheLabelMayHaveAnotherName) {
  const OwnColumns columns{.label = "queue"};
  const auto d = dataset_from_table(table_of(kTickets), nullptr, columns);
  EXPECT_EQ(d.label_set.names, Values{"a"});
  EXPECT_EQ(d.columns.texts, (Values{"subject", "body"}));  // a column "label" is no text
  const std::string message =
      message_of(ErrorCode::kNotFound, [] { dataset_from_table(table_of("text,Class\na,x\n")); });
  EXPECT_EQ(
      message,
      "own.csv: no column 'label'; it has 'text', 'Class': give --label_column_name Class, or rename it in "
      "the header, which is the first line");
}

TEST(OwnColumns, WrongNamesAreRefused) {
  const auto refused = [](ErrorCode code, const OwnColumns& columns) {
    return message_of(code, [&] { chosen(kTickets, columns); });
  };
  EXPECT_TRUE(contains(refused(ErrorCode::kNotFound, {.texts = {" text"}}),
                       "--text_column_names: own.csv: no column ' text'; it has 'ticket_id'"));
  EXPECT_TRUE(contains(refused(ErrorCode::kNotFound, {.removed = {"nope"}}),
                       "--remove_columns: own.csv: no column 'nope'"));
  EXPECT_TRUE(contains(refused(ErrorCode::kUsage, {.texts = {"label"}}), "holds the labels"));
  EXPECT_TRUE(
      contains(refused(ErrorCode::kUsage, {.texts = {"body"}, .removed = {"body"}}), "--remove_columns"));
}

TEST(OwnColumns, RemovedColumnsAreNoTexts) {
  EXPECT_EQ(chosen(kTickets, {.removed = {"subject"}}).texts, (Values{"body", "queue"}));
  EXPECT_EQ(chosen("sentence,more,label\na,b,x\n", {.only_text = "sentence"}).texts, Values{"sentence"});
  EXPECT_EQ(chosen("sentence,more,label\na,b,x\n").texts, (Values{"sentence", "more"}));
}

TEST(OwnColumns, RegressionMayBeAskedForOrNot) {
  const auto d = dataset_from_table(table_of("text,label\na,1\nb,2\n"), nullptr, {.regression = true});
  EXPECT_EQ(d.label_set.kind, LabelKind::kRegression);
  const auto classes =
      dataset_from_table(table_of("text,label\na,10.0\nb,2\nc,2.0\n"), nullptr, {.regression = false});
  EXPECT_EQ(classes.label_set.names, (Values{"2", "10"}));
  EXPECT_EQ(classes.labels, (std::vector<int32_t>{1, 0, 0}));
  message_of(ErrorCode::kInvalidData,
             [] { dataset_from_table(table_of("text,label\na,1\nb,x\n"), nullptr, {.regression = true}); });
  const auto as_texts =
      dataset_from_table(table_of("text,label\na,10\nb,2\n"), nullptr, {.sorts_as_texts = true});
  EXPECT_EQ(as_texts.label_set.names, (Values{"10", "2"}));
}

TEST(OwnColumns, NewLabelsAreAddedWhereTheyMayBe) {
  auto train = dataset_from_table(table_of("text,label\na,m\nb,x\n"));
  const auto dev =
      dataset_from_table(table_of("text,label\na,x\nb,c\n"), &train.label_set, {.adds_labels = true});
  EXPECT_EQ(dev.label_set.names, (Values{"m", "x", "c"}));
  LabelSet sorted = dev.label_set;
  std::sort(sorted.names.begin(), sorted.names.end());
  train.relabel(sorted);
  EXPECT_EQ(train.labels, (std::vector<int32_t>{1, 2}));
}

TEST(TextDataset, OfSeveralLabelsTheTargetsMoveAlong) {
  auto d = dataset_from_table(
      parse_table("{\"t\": \"x\", \"label\": [\"b\"]}\n{\"t\": \"y\", \"label\": [\"a\", \"b\"]}\n",
                  TableFormat::kJsonLines, {}, "own.jsonl"));
  d.reorder(std::vector<int64_t>{1, 0});
  EXPECT_EQ(d.first, (Values{"y", "x"}));
  EXPECT_EQ(d.targets, (std::vector<float>{1, 1, 0, 1}));
  d.relabel({LabelKind::kMultiLabel, {"b", "c", "a"}});
  EXPECT_EQ(d.targets, (std::vector<float>{1, 0, 1, 1, 0, 0}));
}

}  // namespace
}  // namespace lathe
