#include "lathe/data/squad.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "lathe/core/test_folder.h"
#include "lathe/data/golden_testing.h"
#include "lathe/data/test_data.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

constexpr const char* kArticle = R"({"version": "v2.0", "data": [{"title": "t", "paragraphs": [
  {"context": "Größe: the fox ran.", "qas": [
    {"id": "a", "question": "  who?", "answers": [{"text": "fox", "answer_start": 11}, {"text": "the fox", "answer_start": 7}]},
    {"id": "b", "question": "none?", "is_impossible": true, "answers": []},
    {"id": "c", "question": "how?", "start_uncertain": true, "answers": [{"text": "ran", "answer_start": 3}]}]}]}]})";

SquadDataset read(std::string_view json) { return squad_from_json(parse_json(json, "s.json"), "s.json"); }

TEST(Squad, ReadsArticles) {
  const SquadDataset d = read(kArticle);
  ASSERT_EQ(d.examples.size(), 3u);
  EXPECT_EQ(d.contexts.size(), 1u);
  EXPECT_EQ(d.examples[0].question, "  who?");
  EXPECT_EQ(d.examples[0].answers[1].text, "the fox");
  EXPECT_TRUE(d.examples[1].answers.empty());
  EXPECT_EQ(d.uncertain_starts, 1);
  EXPECT_EQ(d.misplaced_answers, 1);  // "ran" is not at 3; the others, counted in code points, are right
  EXPECT_EQ(d.first_misplaced, "c");
  EXPECT_EQ(d.first_unlabelled, "");
}

TEST(Squad, ReadsRowsAsTheDatasetsLibraryWritesThem) {
  for (
      const char* json :
      {R"([{"id": "a", "question": "q", "context": "c d", "answers": {"text": ["d"], "answer_start": [2]}}])",
       R"({"data": [{"id": "a", "question": "q", "context": "c d", "answers": {"text": ["d"], "answer_start": [2]}}]})"}) {
    const SquadDataset d = read(json);
    ASSERT_EQ(d.examples.size(), 1u);
    EXPECT_EQ(d.examples[0].answers[0].start, 2);
  }
}

TEST(Squad, KnowsTheFirstQuestionThatDoesNotSayItsAnswers) {
  const SquadDataset d = read(R"([{"id": "a", "question": "q", "context": "c", "answers": []},
                                  {"id": "b", "question": "q", "context": "c", "answers": null},
                                  {"id": "c", "question": "q", "context": "c"}])");
  EXPECT_NE(d.first_unlabelled.find("[1]"), std::string::npos) << d.first_unlabelled;
  EXPECT_EQ(d.unlabelled, 2);
  message_of(ErrorCode::kUsage, [] { read_squad({}); });
}

TEST(Squad, WhatIsOnlyLearnedFromNeedsNoIds) {
  const TestFolder folder;
  const std::string path = folder / "s.json";
  std::ofstream(path) << R"([{"id": "a", "question": "q", "context": "c", "answers": []},
                             {"id": "a", "question": "q", "context": "c", "answers": []},
                             {"question": "q", "context": "c", "answers": {"text": ["d"], "answer_start": [0]}}])";
  const SquadDataset d = read_squad({path}, QuestionIds::kAny);
  ASSERT_EQ(d.examples.size(), 3u);
  EXPECT_EQ(d.examples[2].id, "");
  EXPECT_NE(d.first_misplaced.find("[2]"), std::string::npos) << d.first_misplaced;
  EXPECT_NE(message_of(ErrorCode::kInvalidData, [&] { read_squad({path}); }).find("distinct"),
            std::string::npos);
}

TEST(Squad, ErrorsNameThePlace) {
  const auto error = [](const char* json) {
    return message_of(ErrorCode::kInvalidData, [&] { read(json); });
  };
  EXPECT_EQ(error(R"({"data": [{"title": "t"}]})"),
            "s.json: data[0]: found no such key, expected an object with a list 'paragraphs' (SQuAD JSON)");
  const std::string text = error(
      R"({"data": [{"paragraphs": [{"context": "c", "qas": [{"id": "x", "question": "q", "answers": [{"text": "c", "answer_start": -1}]}]}]}]})");
  EXPECT_NE(text.find("s.json: data[0].paragraphs[0].qas[0].answers[0]: \"answer_start\": found -1"),
            std::string::npos)
      << text;
  EXPECT_NE(error(R"({"data": []})").find("no question"), std::string::npos);
  error(R"({"rows": []})");
  error(R"([1])");
  error(R"([{"id": "a", "context": "c"}])");
  error(R"([{"id": "a", "question": "q", "context": "c", "answers": {"text": ["c"], "answer_start": []}}])");
  error(R"([{"id": "a", "question": "q", "context": "c", "answers": [5]}])");
  error(R"([{"id": "a", "question": "q", "context": "c"}, {"id": "a", "question": "q", "context": "c"}])");
}

TEST(Squad, AnIdMayBeAnInteger) {  // predictions are keyed by its text
  const auto ids = [](const std::string& id) {
    return fmt::format(R"([{{"id": "a", "question": "q", "context": "c"}},
                           {{"id": {}, "question": "q", "context": "c"}}])",
                       id);
  };
  EXPECT_EQ(read(ids("18446744073709551615")).examples[1].id, "18446744073709551615");
  EXPECT_EQ(read(ids("-7")).examples[1].id, "-7");
  for (const auto& [id, found] :
       {std::pair{"1.5", "1.5"}, {"null", "null"}, {"true", "true"}, {"[1]", "array"}})
    EXPECT_EQ(message_of(ErrorCode::kInvalidData, [&] { read(ids(id)); }),
              fmt::format("s.json: data[1]: \"id\": found {}, expected a string or an integer", found));
  message_of(ErrorCode::kInvalidData, [] {
    read(R"([{"id": 1, "question": "q", "context": "c"}, {"id": "1", "question": "q", "context": "c"}])");
  });
}

std::string row(const std::string& id) {
  return fmt::format(
      R"({{"id": "{}", "question": "q", "context": "c d", "answers": {{"text": ["d"], "answer_start": [2]}}}})",
      id);
}

TEST(Squad, ReadsARowALine) {
  const TestFolder folder;
  const std::string one_row = row("a"), article = parse_json(kArticle, "s").dump();
  for (const auto& [text, examples] : {std::pair{row("a") + "\n" + row("b"), 2u},
                                       {"\xEF\xBB\xBF\n" + row("a") + "\r\n \n" + row("b") + "\n", 2u},
                                       {one_row, 1u},
                                       {one_row + "\n", 1u},
                                       {article, 3u},
                                       {article + "\n", 3u},
                                       {kArticle, 3u},
                                       {"[" + one_row + "]\n", 1u},
                                       {"{\"data\":\n[" + one_row + "]}\n", 1u}})
    for (const char* name : {"s.json", "s.jsonl"}) {
      std::ofstream(folder / name) << text;
      const SquadDataset d = read_squad({folder / name});
      EXPECT_EQ(d.examples.size(), examples) << text;
      EXPECT_EQ(d.examples[0].id, "a");
      EXPECT_FALSE(d.examples[0].answers.empty());
    }
}

TEST(Squad, ErrorsOfRowsNameTheirLine) {
  const auto error = [](const std::string& text) {
    return message_of(ErrorCode::kInvalidData, [&] { squad_from_text(text, "s.jsonl"); });
  };
  EXPECT_EQ(error(row("a") + "\n\n{\"id\": \"b\"}\n"), "s.jsonl:3: the key \"context\" is missing");
  const std::string malformed = error(row("a") + "\n" + row("b") + "\n{\"id\": }\n");
  EXPECT_TRUE(malformed.starts_with("s.jsonl:3:8: not valid JSON")) << malformed;
  const std::string beyond = error(row("a") + "\n" + row("b") + "\n{\"id\": \"c\", \"score\": 1e999}\n");
  EXPECT_TRUE(beyond.starts_with("s.jsonl:3:22: not valid JSON: number overflow")) << beyond;
  EXPECT_NE(error(row("a") + "\n5\n").find("s.jsonl:2: \"context\" is looked for in"), std::string::npos);
  EXPECT_TRUE(
      error(row("a") + "\n" + row("a")).starts_with("s.jsonl:2: id 'a' stands for an earlier question"));
  EXPECT_EQ(squad_from_text(row("a") + "\n" + R"({"id": "b", "question": "q", "context": "c"})", "s.jsonl")
                .first_unlabelled,
            "s.jsonl:2");
}

TEST(Squad, CountsOfTheRebuiltFile) {
  LATHE_NEEDS_DATA("squad/train-v1.1-rebuilt.json.gz");
  const SquadDataset d = read_squad({test_data_dir() + "/squad/train-v1.1-rebuilt.json.gz"});
  EXPECT_EQ(d.examples.size(), 87599u);
  EXPECT_EQ(d.contexts.size(), 18896u);
  EXPECT_EQ(d.uncertain_starts, 8207);
  EXPECT_EQ(d.misplaced_answers, 0);
}

// A vocabulary of whole words, to count tokens by eye.
Tokenizer word_tokenizer() {
  const std::vector<NamedFile> files{
      {"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nw\na\nb\nc\nd\ne\nf\ng\n"},
      {"tokenizer_config.json", "{\"do_lower_case\": true}"}};
  return Tokenizer::from_files(files, "test");
}

SquadDataset one_question(const std::string& context, const std::string& answer, int start) {
  SquadDataset d;
  d.origin = "one";
  d.contexts = {context};
  d.examples = {{.id = "q", .question = "\xC2\xA0 w", .context = 0, .answers = {{answer, start}}}};
  return d;
}

QaFeatures train(const SquadDataset& d, int max_length = 8, int stride = 1) {
  ThreadPool pool(1);
  return make_train_features(d, word_tokenizer(), {.max_seq_length = max_length, .doc_stride = stride}, pool);
}

TEST(QaFeatures, WindowsOverlapAndPointAtTheAnswer) {
  // [CLS] w [SEP] + 4 words + [SEP]: abcd, defg
  const QaFeatures f = train(one_question("a b c d e f g", "c d", 4));
  ASSERT_EQ(f.tokens.size(), 2);
  EXPECT_EQ(f.example, (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(f.tokens.length(0), 8);
  EXPECT_EQ(f.tokens.tensors.ints("start_positions"), (std::vector<int32_t>{5, 0}));
  EXPECT_EQ(f.tokens.tensors.ints("end_positions"), (std::vector<int32_t>{6, 0}));
}

TEST(QaFeatures, FirstTokenIsFoundAndTheLastOneStartsAtTheSeparator) {
  EXPECT_EQ(train(one_question("a b", "a", 0)).tokens.tensors.ints("start_positions"),
            std::vector<int32_t>{3});
  EXPECT_EQ(train(one_question("a b", "a", 0)).tokens.tensors.ints("end_positions"), std::vector<int32_t>{3});
  const QaFeatures last = train(one_question("a b", "b", 2));
  EXPECT_EQ(last.tokens.tensors.ints("start_positions"),
            std::vector<int32_t>{5});  // run_qa's rule walks past the context
  EXPECT_EQ(last.tokens.tensors.ints("end_positions"), std::vector<int32_t>{4});
}

TEST(QaFeatures, OddAnswersPointAtCls) {
  for (const auto& d : {one_question("a b", "zz", 40), one_question("a b", "zz", INT32_MAX - 1),
                        one_question("  ", "x", 0), one_question("  ", "", 0)})
    EXPECT_EQ(train(d).tokens.tensors.ints("start_positions"), std::vector<int32_t>{0});
  SquadDataset none = one_question("a b", "a", 0);
  none.examples[0].answers.clear();
  EXPECT_EQ(train(none).tokens.tensors.ints("end_positions"), std::vector<int32_t>{0});
}

TEST(QaFeatures, AnAnswerWithoutTextPointsAtTheTokenThere) {  // as run_qa's two walks end
  for (const auto& [start, token] : {std::pair{0, 3}, {1, 3}, {2, 4}, {4, 4}}) {
    const QaFeatures f = train(one_question("a bcd e", "", start));
    EXPECT_EQ(f.tokens.tensors.ints("start_positions"), std::vector<int32_t>{token}) << start;
    EXPECT_EQ(f.tokens.tensors.ints("end_positions"), std::vector<int32_t>{token}) << start;
  }
}

TEST(QaFeatures, AQuestionThatLeavesNoRoomIsNamed) {
  const auto message =
      message_of(ErrorCode::kUsage, [] { train(one_question("a b c d e f g", "a", 0), 4, 3); });
  EXPECT_NE(message.find("one: question 'q'"), std::string::npos) << message;
}

TEST(QaFeatures, ATokenizerThatPadsLeftIsRefused) {
  const std::vector<NamedFile> files{{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"},
                                     {"tokenizer_config.json", R"({"padding_side": "left"})"}};
  const Tokenizer left = Tokenizer::from_files(files, "test");
  ThreadPool pool(1);
  const auto message = message_of(ErrorCode::kUnsupported, [&] {
    make_validation_features(one_question("a a", "a", 0), left, {}, pool);
  });
  EXPECT_NE(message.find("padding_side: found left"), std::string::npos) << message;
}

TEST(QaFeatures, TruncateKeepsTheFirstSamples) {
  ThreadPool pool(1);
  QaFeatures f = make_validation_features(one_question("a b c d e f g", "a", 0), word_tokenizer(),
                                          {.max_seq_length = 8, .doc_stride = 1}, pool);
  EXPECT_EQ(f.offsets[0], (std::array<int32_t, 2>{-1, -1}));
  EXPECT_EQ(f.offsets[3], (std::array<int32_t, 2>{0, 1}));
  f.truncate(1);
  EXPECT_EQ(f.tokens.size(), 1);
  EXPECT_EQ(f.offsets.size(), 8u);
}

std::vector<int32_t> record_of(const QaFeatures& f, int64_t i) {
  std::vector<int32_t> record{f.example[i], f.tokens.length(i)};
  const auto ids = f.tokens.ids(i);
  record.insert(record.end(), ids.begin(), ids.end());
  for (int64_t t = f.tokens.begins[i]; t < f.tokens.begins[i + 1]; ++t)
    record.push_back(f.tokens.type_ids[t]);
  if (f.offsets.empty()) {
    record.push_back(f.tokens.tensors.ints("start_positions")[i]);
    record.push_back(f.tokens.tensors.ints("end_positions")[i]);
  } else {
    for (int64_t t = f.tokens.begins[i]; t < f.tokens.begins[i + 1]; ++t)
      record.insert(record.end(), f.offsets[t].begin(), f.offsets[t].end());
  }
  return record;
}

TEST(QaFeatures, RealFilesAsTransformers) {
  LATHE_NEEDS_DATA("squad/train-v1.1-part.json");
  ThreadPool pool;
  for (const auto& c : golden("squad_features.json")) {
    const SquadDataset data = read_squad({test_data_dir() + "/" + c["file"].get<std::string>()});
    std::ifstream vocab(test_data_dir() + "/vocab/" + c["vocabulary"].get<std::string>() + "/vocab.txt");
    const std::vector<NamedFile> files{
        {"vocab.txt", std::string(std::istreambuf_iterator<char>(vocab), {})},
        {"tokenizer_config.json",
         c["lower_case"] ? "{\"do_lower_case\": true}" : "{\"do_lower_case\": false}"}};
    const Tokenizer tokenizer = Tokenizer::from_files(files, "test");
    const QaFeatureOptions options{.max_seq_length = c["max_seq_length"], .doc_stride = c["doc_stride"]};
    const QaFeatures f = c["kind"] == "train" ? make_train_features(data, tokenizer, options, pool)
                                              : make_validation_features(data, tokenizer, options, pool);
    ASSERT_EQ(f.tokens.size(), c["features"].get<int64_t>()) << c["file"];
    for (const auto& example : c["examples"])
      EXPECT_EQ(record_of(f, example["feature"]), example["record"].get<std::vector<int32_t>>())
          << c["file"] << " feature " << example["feature"];
    for (size_t chunk = 0; chunk < c["fnv64_per_1000"].size(); ++chunk) {
      Fnv64 hash;
      const auto begin = static_cast<int64_t>(chunk) * 1000;
      for (int64_t i = begin; i < std::min(begin + 1000, f.tokens.size()); ++i) hash.add(record_of(f, i));
      EXPECT_EQ(hash.hex(), c["fnv64_per_1000"][chunk].get<std::string>())
          << c["file"] << " features from " << begin;
    }
  }
}

}  // namespace
}  // namespace lathe
