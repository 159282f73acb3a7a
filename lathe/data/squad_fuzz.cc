#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lathe/core/error.h"
#include "lathe/data/metrics.h"
#include "lathe/data/squad.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  static const lathe::Tokenizer tokenizer = [] {
    const std::vector<lathe::NamedFile> files{
        {"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n.\n"}};
    return lathe::Tokenizer::from_files(files, "fuzz");
  }();
  static lathe::ThreadPool pool(1);
  try {
    const lathe::SquadDataset squad = lathe::squad_from_text(bytes, "fuzz");
    std::vector<lathe::SquadPrediction> predictions;
    for (const auto& example : squad.examples)
      predictions.push_back({example.answers.empty() ? example.question : example.answers.back().text});
    lathe::squad_v1_metrics(squad, predictions);
    lathe::squad_v2_metrics(squad, predictions);
    const auto features =
        lathe::make_train_features(squad, tokenizer, {.max_seq_length = 12, .doc_stride = 2}, pool);
    for (int64_t i = 0; i < features.tokens.size(); ++i) {
      const int start = features.tokens.tensors.ints("start_positions")[i],
                end = features.tokens.tensors.ints("end_positions")[i];
      if (start < 0 || end < 0 || start >= features.tokens.length(i) || end >= features.tokens.length(i))
        std::abort();
    }
  } catch (const lathe::Error&) {  // what bad input ends in
  }
  return 0;
}
