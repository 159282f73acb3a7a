#include "lathe/data/retrieval/text_columns.h"

#include <gtest/gtest.h>

#include "lathe/data/retrieval/expect_error_testing.h"

namespace lathe {
namespace {

using Texts = std::vector<std::vector<std::string>>;

Table csv_table(const std::string& text, const std::string& name = "pairs.csv") {
  return parse_table(text, TableFormat::kCsv, {}, name);
}

Table jsonl_table(const std::string& text, const std::string& name) {
  return parse_table(text, TableFormat::kJsonLines, {}, name);
}

TEST(TextColumns, TheOrderCountsAndTheTargetIsKnownByName) {
  const TextColumns found = text_columns_of(csv_table("score,b,a\n0.5,x,y\n1,z,w\n"));
  EXPECT_EQ(found.names, (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(found.texts, (Texts{{"x", "z"}, {"y", "w"}}));
  EXPECT_EQ(found.target_name, "score");
  EXPECT_EQ(found.targets, (std::vector<double>{0.5, 1}));
  const TextColumns triplets = text_columns_of(csv_table("anchor,positive,negative_1\na,b,c\n"));
  EXPECT_EQ(triplets.names.size(), 3u);
  EXPECT_TRUE(triplets.target_name.empty());
}

TEST(TextColumns, RefusesRowsWithPlaceValueAndWayOut) {
  const auto refused = [](const std::string& text, const TextColumnRules& rules,
                          const std::vector<std::string>& parts) {
    expect_error([&] { text_columns_of(csv_table(text), rules); }, ErrorCode::kInvalidData, parts);
  };
  refused("a,b\nx,y\nhello,\n", {}, {"pairs.csv:3", "column 'b' is empty", "'hello'", "give it a partner"});
  refused("a,b\nx,y\n , \n", {}, {"pairs.csv:3", "column 'a'", "empty text", "leave out the row"});
  TextColumnRules cosine;
  cosine.range = {-1, 1}, cosine.target_needed = true;
  refused("a,b,score\nx,y,1\nx,y,4.5\n", cosine,
          {"pairs.csv:3", "column 'score'", "found 4.5", "expected -1 to 1", "score / 5"});
  refused("a,b,score\nx,y,1\nx,y,much\n", cosine, {"pairs.csv:3", "'much'", "a number"});
  refused("a,b\nx,y\n", cosine, {"'a', 'b'", "label, labels, score, scores"});
  refused("a,label\nx,1\n", {}, {"1 columns of texts", "expected 2"});
  refused("a,b\nx,7\ny,8\n", {}, {"pairs.csv:2", "column 'b'", "'7'", "expected text"});
}

const char* const kCorpus = R"({"_id": "d0", "title": "T", "text": "one"}
{"_id": "d1", "title": "", "text": "two"}
)";
const char* const kQueries = R"({"_id": "q0", "text": "a?"}
{"_id": "q1", "text": "b?"}
)";

RetrievalSet search(const std::string& corpus, const std::string& queries, const std::string& qrels) {
  return retrieval_set_of(
      jsonl_table(corpus, "corpus.jsonl"), jsonl_table(queries, "queries.jsonl"),
      parse_table("query-id\tcorpus-id\tscore\n" + qrels, TableFormat::kTsv, {}, "test.tsv"));
}

TEST(RetrievalSets, FilesOfBeir) {
  const RetrievalSet found = search(kCorpus, kQueries, "q1\td1\t1\nq1\td0\t0\nq1\td9\t1\n");
  EXPECT_EQ(found.documents, (std::vector<std::string>{"T one", "two"}));
  EXPECT_EQ(found.query_ids, std::vector<std::string>{"q1"});
  EXPECT_EQ(found.queries, std::vector<std::string>{"b?"});
  EXPECT_EQ(found.relevant, (std::vector<std::vector<int32_t>>{{1, -1}}));
  EXPECT_EQ(found.without_relevant, 1u);
  EXPECT_EQ(found.missing_documents, 1u);
}

TEST(RetrievalSets, RefusesWhatDoesNotFit) {
  const auto refused = [](const std::string& corpus, const std::string& qrels,
                          const std::vector<std::string>& parts) {
    expect_error([&] { search(corpus, kQueries, qrels); }, ErrorCode::kInvalidData, parts);
  };
  refused(kCorpus, "q7\td1\t1\n", {"test.tsv:2", "'q7'", "queries.jsonl lacks"});
  refused(kCorpus, "q1\td1\tyes\n", {"test.tsv:2", "'yes'", "a number"});
  refused(kCorpus, "q1\td1\t0\n", {"test.tsv", "no query of queries.jsonl has a positive"});
  refused(std::string(kCorpus) + kCorpus, "q1\td1\t1\n", {"corpus.jsonl:3", "'d0' again"});
  refused("{\"_id\": \"d0\", \"text\": \" \"}\n", "q1\td0\t1\n", {"corpus.jsonl:1", "empty text"});
}

}  // namespace
}  // namespace lathe
