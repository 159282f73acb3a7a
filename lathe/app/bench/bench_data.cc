#include "lathe/app/bench/bench_data.h"

#include "lathe/app/commands/demo.h"
#include "lathe/io/file_system.h"

namespace lathe {
namespace {

constexpr size_t kTrain = 1000, kHeldOut = 452;
constexpr uint64_t kDemoSeed = 1;
constexpr const char* kVocabulary = "vocab/bert-base-uncased";

TextDataset part(const TextDataset& all, size_t begin, size_t end) {
  TextDataset rows;
  rows.origin = all.origin;
  rows.label_set = all.label_set;
  rows.labelled = all.labelled;
  for (size_t i = begin; i < end; ++i) {
    rows.first.push_back(all.first[i]);
    rows.labels.push_back(all.labels[i]);
  }
  return rows;
}

bool has_vocabulary(const std::string& data_dir) {
  return real_file_system().exists(join_path(data_dir, std::string(kVocabulary) + "/vocab.txt"));
}

}  // namespace

std::optional<TextDataset> read_trec(const std::string& data_dir) {
  const std::string path = join_path(data_dir, "trec/train_5500.label");
  if (data_dir.empty() || !real_file_system().exists(path)) return {};
  return read_own_file(path);
}

Questions bench_questions(const std::string& data_dir) {
  const std::optional<TextDataset> trec = read_trec(data_dir);
  if (trec && trec->size() >= kTrain + kHeldOut)
    return {part(*trec, 0, kTrain), part(*trec, trec->size() - kHeldOut, trec->size()), "trec"};
  return {demo_dataset(demo_train(kTrain, kDemoSeed)), demo_dataset(demo_heldout(kHeldOut, kDemoSeed)),
          "demo"};
}

Tokenizer bench_tokenizer(const std::string& data_dir, const Questions& questions) {
  if (questions.origin == "demo") return demo_tokenizer();
  if (!has_vocabulary(data_dir))
    fail(ErrorCode::kNotFound, "{}: no {}/vocab.txt, which TREC's questions need here; pass --model FOLDER",
         data_dir, kVocabulary);
  return Tokenizer::load(join_path(data_dir, kVocabulary));
}

}  // namespace lathe
