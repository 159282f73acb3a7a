#include "lathe/data/glue_tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "lathe/core/test_folder.h"
#include "lathe/data/dataset.h"
#include "lathe/data/test_data.h"

namespace lathe {
namespace {

TEST(GlueTask, NamesAreFoundInAnySpelling) {
  EXPECT_EQ(glue_task("STS-B").name, "stsb");
  EXPECT_EQ(glue_task("MRPC").labels, (Values{"not_equivalent", "equivalent"}));
  const auto message = message_of(ErrorCode::kUsage, [] { glue_task("mrcp"); });
  EXPECT_TRUE(contains(message, "found 'mrcp', expected one of cola mnli")) << message;
}

TEST(GlueFile, LabelsAreNumbersOrNames) {
  const Table t =
      parse_table("index\tquestion\tsentence\tlabel\n0\tq\ts\tnot_entailment\n1\tq\ts\tentailment\n",
                  TableFormat::kTsv, {}, "dev.tsv");
  EXPECT_EQ(dataset_from_glue_table(glue_task("qnli"), t).labels, (std::vector<int32_t>{1, 0}));
  const Table bad = parse_table("sentence\tlabel\ngood\t1\nodd\t2\n", TableFormat::kTsv, {}, "dev.tsv");
  const auto message =
      message_of(ErrorCode::kInvalidData, [&] { dataset_from_glue_table(glue_task("sst2"), bad); });
  EXPECT_EQ(message,
            "dev.tsv:3: column 'label': found '2', expected one of 'negative', 'positive' or 0 to 1");
  const Table missing = parse_table("index\tquestion\n0\tq\n", TableFormat::kTsv, {}, "dev.tsv");
  message_of(ErrorCode::kNotFound, [&] { dataset_from_glue_table(glue_task("qnli"), missing); });
}

TEST(GlueFile, SomeAreOddAsTheyArePublished) {
  const TestFolder folder;
  const auto read = [&](const char* task, const char* bytes) {
    std::ofstream(folder / "file.tsv") << bytes;
    return read_glue_file(glue_task(task), folder / "file.tsv");
  };
  EXPECT_EQ(read("cola", "gj04\t1\t\tA b.\n").first, Values{"A b."});
  EXPECT_EQ(read("cola", "index\tsentence\n0\tA b.\n").first, Values{"A b."});
  EXPECT_EQ(read("qqp", "id\tquestion1\tquestion2\tis_duplicate\n0\ta\tb\t1\n1\tc\n2\td\te\t0\n").labels,
            (std::vector<int32_t>{1, 0}));
}

struct Counts {
  const char *task, *split;
  size_t rows;
  long positive;  // rows of class 1; -1: no labels
};

TEST(GlueFile, RealFilesHaveTheirPublishedCounts) {
  LATHE_NEEDS_DATA("glue/MRPC/train.tsv");
  for (const Counts& c :
       {Counts{"mrpc", "train", 3668, 2474}, Counts{"mrpc", "dev", 408, 279},
        Counts{"mrpc", "test", 1725, -1}, Counts{"cola", "train", 8551, 6023},
        Counts{"cola", "dev", 1043, 721}, Counts{"cola", "test", 1063, -1}, Counts{"wnli", "train", 635, 312},
        Counts{"wnli", "dev", 71, 31}, Counts{"wnli", "test", 146, -1}, Counts{"qnli", "dev", 2996, 1517}}) {
    const GlueTask& task = glue_task(c.task);
    const TaskFiles files = find_task_files(task, test_data_dir(), "");
    const std::string path = c.split == std::string("train") ? files.train
                             : c.split == std::string("dev") ? files.require_validation()[0]
                                                             : files.require_test()[0];
    const TextDataset d = read_glue_file(task, path);
    EXPECT_EQ(d.size(), c.rows) << path;
    EXPECT_EQ(d.labelled, c.positive >= 0) << path;
    EXPECT_EQ(d.has_pairs(), !task.second_key.empty()) << path;
    if (c.positive >= 0) {
      EXPECT_EQ(std::count(d.labels.begin(), d.labels.end(), 1), c.positive) << path;
    } else {
      EXPECT_EQ(std::count(d.labels.begin(), d.labels.end(), -1), static_cast<long>(c.rows)) << path;
    }
  }
}

TEST(GlueFile, StsbIsRegression) {
  LATHE_NEEDS_DATA("glue/STS-B/dev.tsv");
  const auto d = read_glue_file(glue_task("stsb"), test_data_dir() + "/glue/STS-B/dev.tsv");
  ASSERT_EQ(d.size(), 1500u);
  EXPECT_EQ(d.targets[0], 5.0f);
  EXPECT_EQ(d.first[0], "A man with a hard hat is dancing.");
  EXPECT_EQ(d.second[0], "A man wearing a hard hat is dancing.");
  EXPECT_GE(*std::min_element(d.targets.begin(), d.targets.end()), 0);
}

void touch(const std::string& path) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << "x";
}

TEST(FindTaskFiles, TakesTheFolderItsParentOrTheEnvironment) {
  const TestFolder folder;
  touch(folder / "a/STS-B/train.tsv");
  touch(folder / "a/STS-B/dev.tsv.gz");
  touch(folder / "env/glue/stsb/dev-a.tsv");
  const GlueTask& task = glue_task("stsb");
  EXPECT_EQ(find_task_files(task, folder / "a/STS-B", "").train, folder / "a/STS-B/train.tsv");
  EXPECT_EQ(find_task_files(task, folder / "a", "").validation, Values{folder / "a/STS-B/dev.tsv.gz"});
  const TaskFiles found = find_task_files(task, folder / "none", folder / "env");
  EXPECT_EQ(found.validation, Values{folder / "env/glue/stsb/dev-a.tsv"});
  const auto train = message_of(ErrorCode::kNotFound, [&] { found.require_train(); });
  EXPECT_TRUE(contains(train, "stsb: no train.tsv; looked in " + folder / "env/glue/stsb")) << train;
}

TEST(FindTaskFiles, MnliHasTwoOfEach) {
  const TestFolder folder;
  for (const char* name : {"train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched"})
    touch(folder / ("MNLI/" + std::string(name) + ".tsv"));
  const auto files = find_task_files(glue_task("mnli"), folder.path(), "");
  EXPECT_EQ(files.validation, (Values{folder / "MNLI/dev_matched.tsv", folder / "MNLI/dev_mismatched.tsv"}));
  EXPECT_EQ(files.test.size(), 2u);
}

TEST(FindTaskFiles, MismatchedFilesOfMnliAloneDoNotStandForTheMatchedOnes) {
  const TestFolder folder;
  for (const char* name : {"dev_mismatched", "test_mismatched"})
    touch(folder / ("mismatched/" + std::string(name) + ".tsv"));
  const auto files = find_task_files(glue_task("mnli"), folder / "mismatched", "");
  const auto dev = message_of(ErrorCode::kNotFound, [&] { files.require_validation(); });
  EXPECT_TRUE(contains(dev, "mnli: no dev_matched.tsv; looked in " + folder / "mismatched")) << dev;
  const auto test = message_of(ErrorCode::kNotFound, [&] { files.require_test(); });
  EXPECT_TRUE(contains(test, "mnli: no test_matched.tsv; looked in " + folder / "mismatched")) << test;
  touch(folder / "mismatched/dev_matched.tsv");
  EXPECT_EQ(find_task_files(glue_task("mnli"), folder / "mismatched", "").require_validation().size(), 2u);
}

TEST(FindTaskFiles, ListsWhereItLooked) {
  const TestFolder folder;
  const auto message = message_of(ErrorCode::kNotFound,
                                  [&] { find_task_files(glue_task("rte"), folder.path(), folder / "env"); });
  EXPECT_TRUE(contains(message, folder.path() + ", " + folder / "rte" + ", " + folder / "glue/rte"))
      << message;
  EXPECT_TRUE(contains(message, folder / "env/glue/rte")) << message;
  EXPECT_TRUE(contains(message_of(ErrorCode::kNotFound, [] { find_task_files(glue_task("rte"), "", ""); }),
                       "LATHE_DATA_DIR"));
}

TEST(FindSquadFiles, PrefersTheExactName) {
  const TestFolder folder;
  touch(folder / "squad/train-v1.1-part.json");
  touch(folder / "squad/train-v1.1-rebuilt.json.gz");
  touch(folder / "squad/dev-v1.1-a.json");
  EXPECT_EQ(find_squad_files(false, "", folder.path()).train, folder / "squad/train-v1.1-part.json");
  touch(folder / "squad/train-v1.1.json.gz");
  EXPECT_EQ(find_squad_files(false, folder / "squad", "").train, folder / "squad/train-v1.1.json.gz");
  EXPECT_EQ(find_squad_files(false, folder.path(), "").validation, folder / "squad/dev-v1.1-a.json");
  const auto message = message_of(ErrorCode::kNotFound, [&] { find_squad_files(true, folder.path(), ""); });
  EXPECT_TRUE(contains(message, "train-v2.0.json")) << message;
}

}  // namespace
}  // namespace lathe
