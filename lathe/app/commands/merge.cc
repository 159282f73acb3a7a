// lathe merge: a model of a base and its adapter.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lathe/app/commands/commands.h"
#include "lathe/app/output_folder.h"
#include "lathe/app/terminal/hub_terminal.h"
#include "lathe/backends/register.h"
#include "lathe/data/dataset.h"
#include "lathe/data/tokenized.h"
#include "lathe/models/sentence/sentence_folder.h"
#include "lathe/train/adapter/adapter_model.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/trainer.h"

namespace lathe {
namespace {

struct MergeSettings {
  std::string output_dir;
};

std::vector<float> values_of(const Parameters& parameters, const std::string& name) {
  return parameters.read(parameters.model().find(name));
}

/// W += scale · B·A, in f32, as PEFT adds it.  B [out, rank], A [rank, in].
void add_product(std::vector<float>& w, const std::vector<float>& b, const std::vector<float>& a, size_t rank,
                 float scale) {
  const size_t in = a.size() / rank;
  std::vector<float> row(in);
  for (size_t o = 0; o < b.size() / rank; ++o) {
    std::fill(row.begin(), row.end(), 0.0f);
    for (size_t r = 0; r < rank; ++r)
      for (size_t i = 0; i < in; ++i) row[i] += b[o * rank + r] * a[r * in + i];
    for (size_t i = 0; i < in; ++i) w[o * in + i] += row[i] * scale;
  }
}

/// Writes the weights of base and adapter to a model without one.
void merge_into(Parameters& merged, const Parameters& adapted, const nn::AdapterOptions& options) {
  const auto& all = merged.model().parameters();
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<float> w = values_of(adapted, all[i].name);
    const std::string layer = all[i].name.substr(0, all[i].name.rfind('.'));
    const bool weight = all[i].name.ends_with(".weight");
    if (weight && adapted.model().find(layer + ".lora_A.weight") >= 0)
      add_product(w, values_of(adapted, layer + ".lora_B.weight"),
                  values_of(adapted, layer + ".lora_A.weight"), static_cast<size_t>(options.rank),
                  static_cast<float>(options.scale()));
    merged.write(static_cast<int>(i), w);
  }
}

/// A few texts, all of whose tokens are scored.
TokenizedDataset sample(const AutoModel& model, ThreadPool& pool) {
  constexpr int kLongest = 32;
  TextDataset texts{.origin = "sample"};
  texts.first = {"The quick brown fox jumps over the lazy dog.", "A good day.",
                 "Nothing was as it had been!"};
  TokenizedDataset data =
      tokenize_dataset(texts, *model.tokenizer, std::min(kLongest, longest_text(model)), pool);
  if (model.model->per_scored()) data.tensors.ints("scored", Extent::kScored) = data.input_ids;
  if (model.model->task().compares_rows()) data.end_sample();  // which compares them all
  return data;
}

double largest_change(const Predictions& a, const Predictions& b) {
  double most = 0;
  for (size_t i = 0; i < a.logits.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a.logits[i]) - static_cast<double>(b.logits[i])));
  return most;
}

MakeTask task_of(const ModelConfig& config, bool of_pairs) {
  if (!of_pairs) return saved_task(config);
  return config_labels(config).size() == 1 ? pair_value : pair_class;
}

int merge(MergeSettings& settings, const Call& call) {
  if (call.words.size() != 1) call.refuse("expected the folder of an adapter");
  if (settings.output_dir.empty()) call.refuse("expected --output_dir, a new folder for the merged model");
  FileSystem& fs = real_file_system();
  const std::string folder = named_model(call.words[0]);
  if (!is_adapter(fs, folder))
    fail(ErrorCode::kNotFound,
         "{}: no {} there; lathe merge takes the folder of an adapter, as lathe glue "
         "--use_peft and PEFT write it",
         folder, kAdapterConfigFile);
  if (fs.is_directory(settings.output_dir) && !fs.list(settings.output_dir).value().empty())
    fail(ErrorCode::kUsage, "--output_dir: {} is not empty, expected a new folder", settings.output_dir);
  ModelFolders folders = folders_of(fs, folder, [](const auto& base) { return named_model(base); });
  const bool of_pairs = is_cross_encoder_folder(fs, folder);
  const bool vectors = !of_pairs && is_sentence_folder(fs, folder);
  if (vectors) folders.sentence = folder;
  const HeadOptions head{vectors ? sentence_vectors : task_of(read_config(fs, folders), of_pairs), {}, true};
  AutoModel adapted = from_pretrained(fs, folders, head);
  AutoModel merged = from_config(adapted.config, {head.task, adapted.labels}, adapted.tokenizer);
  if (vectors) merged.checkpoint = adapted.checkpoint;  // for what saving keeps as it was
  if (of_pairs)
    merged.cross_encoder = std::make_shared<const CrossEncoderFolder>(
        read_cross_encoder_folder(fs, folder, std::ssize(merged.labels)));
  const auto backend = open_device("cpu", {});
  TrainingArguments args;
  Trainer of_adapter(*backend, adapted, args, nullptr, nullptr),
      of_merged(*backend, merged, args, nullptr, nullptr);
  merge_into(of_merged.session().parameters(), of_adapter.session().parameters(), adapted.adapter->options);
  ThreadPool pool(0);
  const TokenizedDataset texts = sample(adapted, pool);
  const double change = largest_change(of_adapter.predict(texts), of_merged.predict(texts));
  fs.create_directories(settings.output_dir).check();
  check_writable(fs, settings.output_dir);
  write_model(fs, settings.output_dir, merged, of_merged.session().parameters(), true).check();
  fmt::print("{}: {} and {} in one, f32\nlargest change of a logit on {} sample texts: {:.2g}\n",
             settings.output_dir, folders.weights, folder, texts.rows(), change);
  return 0;
}

}  // namespace

Command merge_command() {
  using M = MergeSettings;
  return make_command<M>(
      {.name = "merge",
       .summary = "make one model of a LoRA adapter and its base",
       .synopsis = "ADAPTER_DIR --output_dir DIR",
       .details = "Adds the adapter's products to the weights of its base, in f32, and writes a model folder "
                  "that needs neither of them. Says the largest change of a logit on a few texts: sums are "
                  "rounded in another order, nothing else.",
       .words = Words::kAny},
      {{shared_row("output_dir", "New folder of the merged model."), &M::output_dir}}, merge);
}

}  // namespace lathe
