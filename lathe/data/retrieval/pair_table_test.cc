#include "lathe/data/retrieval/pair_table.h"

#include <gtest/gtest.h>

#include "lathe/data/retrieval/expect_error_testing.h"

namespace lathe {
namespace {

Table rows_of_pairs(const std::string& text, TableFormat format = TableFormat::kJsonLines) {
  return parse_table(text, format, {}, "p");
}

TEST(PairTable, ARowIsAPair) {
  const PairTable pairs =
      pairs_of_table(rows_of_pairs("query,passage,label\nq,a,1\nq,b,0\n", TableFormat::kCsv), {});
  EXPECT_EQ(pairs.first, (std::vector<std::string>{"q", "q"}));
  EXPECT_EQ(pairs.second, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(pairs.labels, (std::vector<double>{1, 0}));
  EXPECT_EQ(pairs.place(1), "p:3");
  EXPECT_TRUE(pairs.has_binary_labels());
  EXPECT_FALSE(pairs.of_lists);
}

TEST(PairTable, AListOfDocumentsIsAPairEach) {
  const Table table = rows_of_pairs(R"({"query": "q", "docs": ["a", "b"], "labels": [0, 1]})"
                                    "\n"
                                    R"({"query": "r", "docs": ["c"], "labels": [0.5]})"
                                    "\n");
  PairTable pairs = pairs_of_table(table, {.texts = {}, .label = {}, .labels_needed = true});
  EXPECT_TRUE(pairs.of_lists);
  EXPECT_EQ(pairs.first, (std::vector<std::string>{"q", "q", "r"}));
  EXPECT_EQ(pairs.second, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(pairs.labels, (std::vector<double>{0, 1, 0.5}));
  EXPECT_EQ(pairs.place(1), "p:1");
  EXPECT_EQ(pairs.place(2), "p:2");
  EXPECT_FALSE(pairs.has_binary_labels());
  const PairTable of_csv = pairs_of_table(
      rows_of_pairs("q,d,labels\nq,\"[\"\"a\"\", \"\"b\"\"]\",\"[0, 1]\"\n", TableFormat::kCsv), {});
  EXPECT_TRUE(of_csv.of_lists);
  EXPECT_EQ(of_csv.second, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(of_csv.labels, (std::vector<double>{0, 1}));
  EXPECT_FALSE(pairs_of_table(rows_of_pairs("q,d,label\nq,[a] note,1\n", TableFormat::kCsv), {}).of_lists);
  pairs.truncate(1);
  EXPECT_EQ(pairs.size(), 1u);
  EXPECT_TRUE(pairs.has_binary_labels());
}

TEST(PairTable, ColumnsCanBeNamed) {
  const Table table = rows_of_pairs("id,a,b,good\n1,x,y,0.25\n", TableFormat::kCsv);
  const PairTable pairs =
      pairs_of_table(table, {.texts = {"b", "a"}, .label = "good", .labels_needed = true});
  EXPECT_EQ(pairs.first, std::vector<std::string>{"y"});
  EXPECT_EQ(pairs.labels, std::vector<double>{0.25});
  EXPECT_EQ(pairs.label_column, "good");
}

TEST(PairTable, TestDataNeedNoLabels) {
  const Table table = rows_of_pairs("query,passage,label\nq,a,-1\nq,b,-1\n", TableFormat::kCsv);
  EXPECT_TRUE(pairs_of_table(table, {}).labels.empty());
  EXPECT_EQ(pairs_of_table(table, {.texts = {}, .label = {}, .labels_needed = true}).labels.size(), 2u);
}

TEST(PairTable, QueriesWithSeveralDocumentsAreGroups) {
  const std::string text = "query,passage,label\nq,a,0\nr,b,1\nq,c,1\ns,d,0\ns,e,0\n";
  const std::vector<QueryGroup> groups =
      groups_by_query(pairs_of_table(rows_of_pairs(text, TableFormat::kCsv), {}));
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].pairs, (std::vector<size_t>{0, 2}));
  EXPECT_TRUE(groups[0].has_positive);
  EXPECT_EQ(groups[1].pairs, (std::vector<size_t>{3, 4}));
  EXPECT_FALSE(groups[1].has_positive);
  const std::string mostly_own = "query,passage,label\nq,a,0\nq,b,1\nr,c,1\ns,d,0\n";
  EXPECT_TRUE(groups_by_query(pairs_of_table(rows_of_pairs(mostly_own, TableFormat::kCsv), {})).empty());
}

TEST(PairTable, BadInputIsTold) {
  const PairColumns all{.texts = {}, .label = {}, .labels_needed = true};
  const auto refused = [](const Table& table, const PairColumns& columns, ErrorCode code,
                          const std::vector<std::string>& parts) {
    expect_error([&] { pairs_of_table(table, columns); }, code, parts);
  };
  const auto csv = [](const std::string& text) { return rows_of_pairs(text, TableFormat::kCsv); };
  refused(csv("query,passage\nq,a\n"), all, ErrorCode::kNotFound,
          {"p: found the columns 'query', 'passage' and no label", "--label_column_name"});
  refused(csv("a,b,label\nq,a,1\n"), {.texts = {}, .label = "x", .labels_needed = true}, ErrorCode::kNotFound,
          {"p: no column 'x': found 'a', 'b', 'label'"});
  refused(csv("a,b,label\nq,a,1\n"), {.texts = {"a", "c"}, .label = {}}, ErrorCode::kNotFound,
          {"p: no column 'c'", "--text_column_names A,B"});
  refused(csv("a,b,c,label\nq,a,d,1\n"), all, ErrorCode::kInvalidData,
          {"p: found 3 columns of texts", "--text_column_names A,B"});
  refused(csv("a,label\nq,1\n"), all, ErrorCode::kInvalidData,
          {"p: found 1 column of texts", "expected two"});
  refused(csv("a,b,label\nq,a,1\nr,,0\n"), all, ErrorCode::kInvalidData,
          {"p:3: column 'b' is empty, but 'a' has the text 'r': give it a partner"});
  refused(csv("a,b,label\nq,a,yes\n"), all, ErrorCode::kInvalidData,
          {"p:2: column 'label': found 'yes', expected a number"});
  refused(csv("a,b,score\nq,a,\nr,b,1\n"), all, ErrorCode::kInvalidData,
          {"p:2: column 'score': found no label"});
  refused(rows_of_pairs(R"({"query": "q", "docs": ["a", "b"], "labels": [0]})"), all, ErrorCode::kInvalidData,
          {"p:1: found 2 documents in 'docs' and 1 labels in 'labels'"});
  refused(rows_of_pairs(R"({"query": "q", "docs": ["a", ""], "labels": [0, 1]})"), all,
          ErrorCode::kInvalidData, {"p:1: column 'docs' is empty, but 'query' has the text 'q'"});
  refused(rows_of_pairs(R"({"query": "q", "docs": ["a"], "labels": 1})"), all, ErrorCode::kInvalidData,
          {"p:1: column 'labels': found '1', expected a list"});
}

}  // namespace
}  // namespace lathe
