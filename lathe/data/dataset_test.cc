#include "lathe/data/dataset.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "lathe/core/comma_locale_testing.h"
#include "lathe/core/test_folder.h"
#include "lathe/data/test_data.h"

namespace lathe {
namespace {

Table csv(std::string_view bytes) { return parse_table(bytes, TableFormat::kCsv, {}, "own.csv"); }
Table json_table(std::string_view bytes) { return parse_table(bytes, TableFormat::kJson, {}, "own.json"); }

TEST(OwnFile, ClassesAreTheSortedLabels) {
  const auto d =
      dataset_from_table(csv("title,note,extra,label\none,hello,1,pos\n2,bye,2,neg\nthree,so,3,pos\n"));
  EXPECT_EQ(d.label_set.names, (Values{"neg", "pos"}));
  EXPECT_EQ(d.labels, (std::vector<int32_t>{1, 0, 1}));
  EXPECT_EQ(d.first, (Values{"one", "2", "three"}));  // the first two other columns, as run_glue takes them
  EXPECT_EQ(d.second, (Values{"hello", "bye", "so"}));
  EXPECT_TRUE(d.labelled);
}

TEST(OwnFile, SentenceColumnsComeFirstWhereTheyAre) {
  const auto d = dataset_from_table(csv("id,sentence2,label,sentence1\n7,b,0,a\n"));
  EXPECT_EQ(d.first, Values{"a"});
  EXPECT_EQ(d.second, Values{"b"});
}

TEST(OwnFile, PandasRowNumberIsNoText) {
  const auto d = dataset_from_table(csv(",text,label\n0,hi,a\n1,ho,b\n"));
  EXPECT_EQ(d.first, (Values{"hi", "ho"}));
  EXPECT_FALSE(d.has_pairs());
}

TEST(OwnFile, AColumnOfNumbersIsNoTextUnlessItIsNamedSo) {
  const auto refused = [](const Table& table) {
    return message_of(ErrorCode::kInvalidData, [&] { dataset_from_table(table); });
  };
  EXPECT_EQ(
      refused(csv("stars,text,label\n5,hi,a\n5,ho,b\n")),
      "own.csv:2: column 'stars': found '5', expected text, as one of the first two columns but 'label'; "
      "leave the column out, name the texts with --text_column_names, or call them sentence1 and "
      "sentence2");
  for (const char* row : {R"({"text": "hi", "score": 1.5, "label": "a"})", R"({"text": 3, "label": "a"})"})
    EXPECT_TRUE(contains(refused(json_table(row)), "expected text")) << row;
  const auto d = dataset_from_table(csv("sentence1,sentence2,label\n1,2,a\n"));
  EXPECT_EQ(d.first, Values{"1"});
  EXPECT_EQ(dataset_from_table(json_table(R"({"text": "3", "label": "a"})")).first, Values{"3"});
}

TEST(OwnFile, IntegersAreClassesInNumericOrder) {
  const auto d = dataset_from_table(csv("text,label\na,10\nb,2\nc,10\n"));
  EXPECT_EQ(d.label_set.names, (Values{"2", "10"}));
  EXPECT_EQ(d.labels, (std::vector<int32_t>{1, 0, 1}));
}

TEST(OwnFile, NumbersAreClassesByTheirValue) {  // as pandas reads them
  const auto d = dataset_from_table(csv("text,label\na, 1\nb,01\nc,+1\nd,2 \ne,\"2\"\n"));
  EXPECT_EQ(d.label_set.names, (Values{"1", "2"}));
  EXPECT_EQ(d.labels, (std::vector<int32_t>{0, 0, 0, 1, 1}));
  const auto later = dataset_from_table(csv("text,label\na,2.0\nb, -1\nc,01\nd,\n"), &d.label_set);
  EXPECT_EQ(later.labels, (std::vector<int32_t>{1, -1, 0, -1}));
  const auto other = message_of(ErrorCode::kInvalidData,
                                [&] { dataset_from_table(csv("text,label\na, 1\nb,03\n"), &d.label_set); });
  EXPECT_TRUE(contains(other, "own.csv:3: column 'label': found '03', expected one of the known")) << other;
}

TEST(OwnFile, TextThatIsNoColumnOfNumbersStaysAsItIs) {
  EXPECT_EQ(dataset_from_table(csv("text,label\na,1\nb,01\nc,x\n")).label_set.names,
            (Values{"01", "1", "x"}));
  EXPECT_EQ(dataset_from_table(json_table(R"([{"t": "a", "label": "1"}, {"t": "b", "label": "01"}])"))
                .label_set.names,
            (Values{"01", "1"}));
  const LabelSet spelled{.kind = LabelKind::kClasses, .names = {"00", "01"}};
  EXPECT_EQ(dataset_from_table(csv("text,label\na,01\nb,00\n"), &spelled).labels,
            (std::vector<int32_t>{1, 0}));
}

// Such as programs with a graphical interface set: '.' ends a number of the C library there.
TEST(OwnFile, FloatsKeepTheirFractionUnderALocaleWithAComma) {
  const CommaLocale locale;
  if (!locale) GTEST_SKIP() << "needs a locale with a decimal comma, or localedef to make one";
  const std::vector<float> wanted = {0.25f, -1.5f};
  EXPECT_EQ(dataset_from_table(csv("text,label\na,0.25\nb,-1.5\n")).targets, wanted);
  EXPECT_EQ(dataset_from_table(json_table(R"([{"text": "a", "label": 0.25}, {"text": "b", "label": -1.5}])"))
                .targets,
            wanted);
}

TEST(OwnFile, FloatsAreRegression) {
  const auto d = dataset_from_table(csv("text,label\na,1.5\nb,2\n"));
  EXPECT_EQ(d.label_set.kind, LabelKind::kRegression);
  EXPECT_EQ(d.label_set.num_labels(), 1);
  EXPECT_EQ(d.targets, (std::vector<float>{1.5f, 2.0f}));
  EXPECT_EQ(dataset_from_table(csv("text,label\na, 1.5 \nb,+02\n")).targets, d.targets);
  const auto bad = message_of(ErrorCode::kInvalidData,
                              [&] { dataset_from_table(csv("text,label\na,x\n"), &d.label_set); });
  EXPECT_TRUE(contains(bad, "own.csv:2: column 'label': found 'x', expected a number")) << bad;
  const auto huge =
      message_of(ErrorCode::kInvalidData, [] { dataset_from_table(csv("text,label\na,1.5\nb,1e39\n")); });
  EXPECT_TRUE(contains(huge, "own.csv:3: column 'label': found '1e39'")) << huge;
  // 2^70, whose square is beyond float32: the loss was infinite.
  const auto square = message_of(ErrorCode::kInvalidData, [] {
    dataset_from_table(csv("text,label\na,1\nb,-1180591620717411303424\n"));
  });
  EXPECT_EQ(
      square,
      "own.csv:3: column 'label': found '-1180591620717411303424', expected a number from -1e15 to 1e15: no "
      "loss "
      "holds the square of a larger one; scale the labels of all files, or write them as words if they name "
      "classes");
  const auto in_json = message_of(ErrorCode::kInvalidData, [] {
    dataset_from_table(json_table(R"([{"t": "x", "label": 1180591620717411303424}])"));
  });
  EXPECT_TRUE(contains(in_json, "expected a number from -1e15 to 1e15")) << in_json;
  EXPECT_EQ(dataset_from_table(csv("text,label\na,1e15\nb,-1e15\n")).targets[0], 1e15f);
}

TEST(OwnFile, ListsAreMultiLabel) {
  const auto d = dataset_from_table(json_table(
      R"([{"t": "x", "label": ["b", "a"]}, {"t": "y", "label": []}, {"t": "z", "label": ["c"]}])"));
  EXPECT_EQ(d.label_set.kind, LabelKind::kMultiLabel);
  EXPECT_EQ(d.label_set.names, (Values{"a", "b", "c"}));
  EXPECT_EQ(d.targets, (std::vector<float>{1, 1, 0, 0, 0, 0, 0, 0, 1}));
}

TEST(OwnFile, ALabelOutsideTheSetNamesItsPlace) {
  const LabelSet known{.kind = LabelKind::kClasses, .names = {"neg", "pos"}};
  const auto message = message_of(ErrorCode::kInvalidData,
                                  [&] { dataset_from_table(csv("text,label\na,pos\nb,other\n"), &known); });
  EXPECT_EQ(message,
            "own.csv:3: column 'label': found 'other', expected one of the known labels 'neg', 'pos'");
  const auto list = message_of(ErrorCode::kInvalidData, [&] {
    dataset_from_table(json_table(R"([{"t": "x", "label": ["pos"]}])"), &known);
  });
  EXPECT_TRUE(contains(list, "holds lists")) << list;
}

TEST(OwnFile, TestFilesNeedNoLabels) {
  const LabelSet known{.kind = LabelKind::kClasses, .names = {"neg", "pos"}};
  const auto none = dataset_from_table(csv("text\na\nb\n"), &known);
  EXPECT_EQ(none.labels, (std::vector<int32_t>{-1, -1}));
  EXPECT_FALSE(none.labelled);
  const auto minus = dataset_from_table(csv("text,label\na,-1\nb,-1\n"), &known);
  EXPECT_EQ(minus.labels, (std::vector<int32_t>{-1, -1}));
  EXPECT_FALSE(minus.labelled);
  message_of(ErrorCode::kNotFound, [] { dataset_from_table(csv("text\na\n")); });
}

TEST(OwnFile, AClassMayBeNamedAsTheMissingLabel) {
  const LabelSet known{.kind = LabelKind::kClasses, .names = {"-1", "1"}};
  const auto d = dataset_from_table(csv("text,label\na,-1\nb,1\n"), &known);
  EXPECT_EQ(d.labels, (std::vector<int32_t>{0, 1}));
}

TEST(OwnFile, FilesOfOneRunHaveTheSameTextColumns) {
  const auto train = dataset_from_table(csv("question,label\nwho,a\nwhat,b\n"));
  EXPECT_EQ(train.columns.texts, Values{"question"});
  const OwnColumns columns{.texts = train.columns.texts};
  const auto dev = dataset_from_table(csv("id,label,question\n7,a,where\n"), &train.label_set, columns);
  EXPECT_EQ(dev.first, Values{"where"});
  EXPECT_FALSE(dev.has_pairs());
  const auto message = message_of(ErrorCode::kNotFound, [&] {
    dataset_from_table(csv("text,label\nwho,a\n"), &train.label_set, columns);
  });
  EXPECT_TRUE(contains(message, "no column 'question'; it has 'text', 'label'")) << message;
}

TEST(OwnFile, RefusesWhatCannotBeLearnt) {
  EXPECT_TRUE(contains(message_of(ErrorCode::kInvalidData, [] { dataset_from_table(csv("label\na\n")); }),
                       "no text"));
  const auto gap =
      message_of(ErrorCode::kInvalidData, [] { dataset_from_table(csv("text,label\na,x\nb,\n")); });
  EXPECT_TRUE(contains(gap, "own.csv:3")) << gap;
  message_of(ErrorCode::kInvalidData,
             [] { dataset_from_table(json_table(R"([{"t": {"x": 1}, "label": "a"}])")); });
  message_of(ErrorCode::kInvalidData,
             [] { dataset_from_table(json_table(R"([{"t": "x", "label": null}])")); });
}

TEST(OwnFile, ANumberOrListThatIsMissingIsRefusedWithItsPlace) {
  const auto learn = [](const Table& table) {
    return message_of(ErrorCode::kInvalidData, [&] { dataset_from_table(table); });
  };
  const std::string wanted = "expected a label in every row of a file to learn from";
  EXPECT_EQ(learn(csv("text,label\na,1.5\nb,\nc,2\n")), "own.csv:3: column 'label': found '', " + wanted);
  for (const char* row : {R"({"t": "y", "label": null})", R"({"t": "y"})"}) {
    const auto number = learn(json_table(R"({"t": "x", "label": 0.5})" + std::string("\n") + row));
    EXPECT_TRUE(contains(number, "own.json:2") && contains(number, wanted)) << number;
    const auto list = learn(json_table(R"({"t": "x", "label": ["a"]})" + std::string("\n") + row));
    EXPECT_TRUE(contains(list, "own.json:2") && contains(list, wanted)) << list;
  }
}

TEST(OwnFile, TheFirstRowWithoutALabelIsKnown) {
  const LabelSet classes{.kind = LabelKind::kClasses, .names = {"neg", "pos"}};
  for (const char* gap : {"", "-1"}) {
    const auto d = dataset_from_table(csv(fmt::format("text,label\na,pos\nb,{0}\nc,{0}\n", gap)), &classes);
    EXPECT_TRUE(d.labelled);
    EXPECT_EQ(d.unlabelled_row, "own.csv:3");
  }
  const LabelSet numbers{.kind = LabelKind::kRegression, .names = {}};
  const auto d = dataset_from_table(csv("text,label\na,-1\nb,-1\n"), &numbers);
  EXPECT_TRUE(d.labelled);  // -1 is a number like others
  EXPECT_EQ(d.unlabelled_row, "");
  EXPECT_EQ(dataset_from_table(csv("text,label\na,\nb,2\n"), &numbers).unlabelled_row, "own.csv:2");
}

TEST(OwnFile, AWordForNoNumberIsNoClassBesideNumbers) {
  for (const char* word : {"nan", "NA", "N/A", "null", "None", "-inf"})
    for (const char* number : {"1", "0.5"}) {
      const auto message = message_of(ErrorCode::kInvalidData, [&] {
        dataset_from_table(csv(fmt::format("text,label\na,{0}\nb,{0}\nc,{1}\n", number, word)));
      });
      EXPECT_TRUE(contains(message, fmt::format("own.csv:4: column 'label': found '{}'", word))) << message;
      EXPECT_TRUE(contains(message, "leave the row out")) << message;
    }
  EXPECT_EQ(dataset_from_table(csv("text,label\na,yes\nb,NA\n")).label_set.names, (Values{"NA", "yes"}));
  EXPECT_EQ(dataset_from_table(csv("text,label\na,1\nb,other\n")).label_set.names, (Values{"1", "other"}));
}

TEST(OwnFile, ATextThatIsMissingIsRefusedWithItsPlace) {
  const std::string pair = R"({"sentence1": "a", "sentence2": "b", "label": "x"})";
  const LabelSet known{.kind = LabelKind::kClasses, .names = {"x"}};
  for (const char* row : {R"({"sentence1": "a", "label": "x"})", R"({"sentence1": "a", "sentence2": null})"})
    for (const LabelSet* set : {static_cast<const LabelSet*>(nullptr), &known})
      for (const std::string& rows : {pair + "\n" + row + "\n" + pair, pair + "\n" + row})
        EXPECT_EQ(
            message_of(ErrorCode::kInvalidData, [&] { dataset_from_table(json_table(rows), set); }),
            "own.json:2: column 'sentence2': found no text, expected one in every row: write \"\" for an "
            "empty one, or leave the row or the column out (texts are sentence1 and sentence2, or the "
            "first two columns)");
  const auto late = message_of(ErrorCode::kInvalidData, [&] {
    dataset_from_table(json_table("{\"label\": \"x\"}\n{\"label\": \"x\", \"text\": \"a\"}"));
  });
  EXPECT_TRUE(contains(late, "own.json:1: column 'text': found no text")) << late;
  const auto task = message_of(ErrorCode::kInvalidData, [&] {
    dataset_from_glue_table(glue_task("sst2"), json_table(R"([{"sentence": null, "label": 1}])"));
  });
  EXPECT_TRUE(contains(task, "own.json:1: column 'sentence': found no text")) << task;
  const auto written = dataset_from_table(json_table(R"({"sentence1": "", "sentence2": "b", "label": "x"})"));
  EXPECT_EQ(written.first, Values{""});
  EXPECT_EQ(written.empty_texts.count, 0u);
  // A label or another column may lack what it likes.
  EXPECT_EQ(
      dataset_from_table(json_table(R"({"sentence1": "a", "sentence2": "b", "more": null})"), &known).size(),
      1u);
}

TEST(OwnFile, EmptyCellsAreCountedTexts) {
  const auto d = dataset_from_table(csv("text,more,label\na,b,x\nc,,x\n\n,d,x\n\"\",,x\n e, ,x\n"));
  EXPECT_EQ(d.first, (Values{"a", "c", "", "", " e"}));
  EXPECT_EQ(d.empty_texts.count, 4u);
  EXPECT_EQ(d.first_empty_text, "own.csv:3");
  EXPECT_EQ(dataset_from_table(csv("text,label\na,x\nb,x\n")).first_empty_text, "");
}

TEST(OwnFile, GapsOfALaterFileAreFoundThere) {
  const TestFolder folder;
  const auto write = [&](const char* name, const char* content) {
    std::ofstream(folder / name) << content;
    return folder / name;
  };
  const std::string full = write("full.csv", "text,label\na,x\nb,x\n");
  const std::string gap = write("gap.csv", "text,label\nc,x\n\"\",x\n");
  const auto d = read_own_files({full, gap, full, gap});
  EXPECT_EQ(d.empty_texts.count, 2u);
  EXPECT_EQ(d.first_empty_text, gap + ":3");
  const std::string null = write("null.jsonl", R"({"text": null, "label": "x"})");
  const auto refused = message_of(ErrorCode::kInvalidData, [&] { read_own_files({full, null}); });
  EXPECT_TRUE(contains(refused, null + ":1: column 'text': found no text")) << refused;
}

TEST(OwnFile, MinusOneOfAClassLabelIsNoLabel) {
  Table table = csv("text,more,label\na,1x,1\nb,2x,-1\nc,3x,0\nd,4x,-1\n");
  EXPECT_EQ(dataset_from_table(table).label_set.names, (Values{"-1", "0", "1"}));
  table.columns[2].class_label = true;
  auto d = dataset_from_table(table);
  EXPECT_EQ(d.label_set.names, (Values{"0", "1"}));
  EXPECT_EQ(d.labels, (std::vector<int32_t>{1, -1, 0, -1}));
  EXPECT_EQ(d.unclassified, 2u);
  EXPECT_EQ(d.unlabelled_row, "");
  EXPECT_TRUE(d.labelled);
  d.keep_labelled();
  EXPECT_EQ(d.first, (Values{"a", "c"}));
  EXPECT_EQ(d.second, (Values{"1x", "3x"}));
  EXPECT_EQ(d.labels, (std::vector<int32_t>{1, 0}));
  Table hidden = csv("text,label\na,-1\nb,-1\n");
  hidden.columns[1].class_label = true;
  EXPECT_FALSE(dataset_from_table(hidden, &d.label_set).labelled);
  const auto none = message_of(ErrorCode::kInvalidData, [&] { dataset_from_table(hidden); });
  EXPECT_TRUE(contains(none, "own.csv: column 'label' names no class")) << none;
}

TEST(OwnFile, NumbersStandForClassesWithoutNames) {
  const LabelSet plain{.kind = LabelKind::kClasses, .names = {"LABEL_0", "LABEL_1", "LABEL_2"}};
  const auto d = dataset_from_table(csv("text,label\na,2\nb,00\nc,-1\n"), &plain);
  EXPECT_EQ(d.labels, (std::vector<int32_t>{2, 0, -1}));
  EXPECT_EQ(d.label_set, plain);
  EXPECT_EQ(dataset_from_table(csv("text,label\na,LABEL_1\n"), &plain).labels, std::vector<int32_t>{1});
  const auto refused = [](const LabelSet& set) {
    return message_of(ErrorCode::kInvalidData, [&] { dataset_from_table(csv("text,label\na,3\n"), &set); });
  };
  EXPECT_EQ(refused(plain),
            "own.csv:2: column 'label': found '3', expected one of the known labels 'LABEL_0', 'LABEL_1', "
            "'LABEL_2' or 0 to 2; a --train_file with these labels names them");
  const LabelSet other{.kind = LabelKind::kClasses, .names = {"LABEL_0", "LABEL_3"}};
  EXPECT_TRUE(contains(refused(other), "known labels 'LABEL_0', 'LABEL_3'")) << refused(other);
}

TEST(OwnFile, NumbersInListsAreNames) {
  const LabelSet several{.kind = LabelKind::kMultiLabel, .names = {"LABEL_0", "LABEL_1"}};
  const Table hot =
      parse_table("{\"text\": \"a\", \"label\": [0, 1]}\n", TableFormat::kJsonLines, {}, "own.jsonl");
  EXPECT_TRUE(contains(message_of(ErrorCode::kInvalidData, [&] { dataset_from_table(hot, &several); }),
                       "known labels 'LABEL_0', 'LABEL_1'"));
}

TEST(OwnFile, TextsAreTheFirstColumnsThatMayHoldThem) {
  const auto texts = [](const char* row) {
    return dataset_from_table(parse_table(row, TableFormat::kJsonLines, {}, "own.jsonl")).columns.texts;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(texts(R"({"ids": [1], "text": "a", "note": null, "info": {"x": 1}, "more": "b", "label": 1})"),
            (Names{"text", "more"}));
  EXPECT_EQ(texts(R"({"text": "a", "note": null, "label": 1})"), Names{"text"});
  EXPECT_TRUE(
      contains(message_of(ErrorCode::kInvalidData, [&] { texts(R"({"info": {"x": 1}, "label": 1})"); }),
               "column 'info' holds nested JSON"));
  EXPECT_TRUE(contains(message_of(ErrorCode::kInvalidData,
                                  [&] {
                                    texts(
                                        "{\"text\": \"a\", \"label\": 1}\n"
                                        "{\"text\": [[\"a\"]], \"label\": 0}\n");
                                  }),
                       "own.jsonl:2: column 'text' holds nested JSON"));
}

TEST(LabelSet, AdoptsAModelsOrder) {
  LabelSet set{.kind = LabelKind::kClasses, .names = {"entailment", "neutral", "contradiction"}};
  EXPECT_FALSE(set.adopt({{"LABEL_0", 0}, {"LABEL_1", 1}, {"LABEL_2", 2}}));
  EXPECT_FALSE(set.adopt({{"entailment", 0}, {"neutral", 0}, {"contradiction", 1}}));
  EXPECT_FALSE(set.adopt({{"entailment", 0}, {"ENTAILMENT", 1}, {"neutral", 2}}));
  EXPECT_FALSE(set.adopt({{"entailment", 0}, {"neutral", 1}, {"contradiction", 1 << 20}}));
  EXPECT_FALSE(set.adopt({{"entailment", -1}, {"neutral", 1}, {"contradiction", 2}}));
  EXPECT_EQ(set.names[0], "entailment");
  EXPECT_TRUE(set.adopt({{"CONTRADICTION", 0}, {"Entailment", 1}, {"neutral", 2}}));
  EXPECT_EQ(set.names, (Values{"contradiction", "entailment", "neutral"}));
}

TEST(LabelSet, OfManyNamesEveryRowGetsItsOwn) {
  constexpr int kClasses = 3000;
  LabelSet set;
  std::vector<std::pair<std::string, int>> label2id;
  std::string rows = "text,label\n";
  for (int i = 0; i < kClasses; ++i) {
    set.names.push_back(fmt::format("Class {}", i));
    label2id.emplace_back(fmt::format("CLASS {}", i), kClasses - 1 - i);
    rows += fmt::format("row {},Class {}\n", i, i);
  }
  ASSERT_TRUE(set.adopt(label2id));
  EXPECT_EQ(set.names.front(), "Class 2999");
  const auto d = dataset_from_table(csv(rows), &set);
  for (int i = 0; i < kClasses; ++i) EXPECT_EQ(d.labels[static_cast<size_t>(i)], kClasses - 1 - i);
  set.names = {"a", "b", "a"};
  EXPECT_EQ(set.ids().at("a"), 0);
}

TEST(TextDataset, TruncateKeepsTheFirstRows) {
  auto d = dataset_from_table(
      json_table(R"([{"t": "x", "u": "p", "label": ["a"]}, {"t": "y", "u": "q", "label": ["b"]}])"));
  d.truncate(5);
  EXPECT_EQ(d.size(), 2u);
  d.truncate(1);
  EXPECT_EQ(d.second, Values{"p"});
  EXPECT_EQ(d.targets, (std::vector<float>{1, 0}));
}

}  // namespace
}  // namespace lathe
