#include "lathe/train/sentence/embed_samples.h"

#include <fmt/format.h>

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/data/retrieval/no_duplicates.h"
#include "lathe/data/retrieval/text_samples.h"
#include "lathe/data/torch_random.h"
#include "lathe/models/sentence/pooling_inputs.h"
#include "lathe/train/sentence/embed_settings.h"
#include "lathe/train/sentence/saved_sentence.h"
#include "lathe/train/sentence/text_encoder.h"

namespace lathe {
namespace {

/// The pooling of some models leaves the tokens of prompts out.
void put_prompt_lengths(TokenizedDataset& samples, const std::vector<std::string>& prompts,
                        const AutoModel& model, int longest) {
  std::vector<int32_t> lengths;
  for (const std::string& prompt : prompts) lengths.push_back(prompt_tokens(model, prompt, longest));
  if (std::all_of(lengths.begin(), lengths.end(), [](int32_t length) { return length == 0; })) return;
  Tensor all{.name = kPromptLength, .width = std::ssize(lengths), .values = {}};
  std::vector<int32_t> values;
  for (int64_t i = 0; i < samples.size(); ++i) values.insert(values.end(), lengths.begin(), lengths.end());
  all.values = std::move(values);
  samples.tensors.append(all);
}

void put_targets(EmbedPart& part, const SimilarityLoss& loss) {
  TensorList& tensors = part.samples.tensors;
  const std::vector<double>& targets = part.columns.targets;
  if (loss.kind == SimilarityLoss::Kind::kCoSent)
    tensors.ints("ranks") = ranks_of_values(targets);
  else if (!part.columns.target_name.empty())
    tensors.floats("labels") = {targets.begin(), targets.end()};
  else
    tensors.ints(kTextsOfSample).assign(part.columns.size(), static_cast<int32_t>(part.columns.texts.size()));
}

}  // namespace

bool has_loss(const SimilarityLoss& loss, const TextColumns& columns) {
  const size_t texts = columns.texts.size();
  switch (loss.kind) {
    case SimilarityLoss::Kind::kMultipleNegatives:
      return columns.target_name.empty();
    case SimilarityLoss::Kind::kTriplet:
      return texts == 3 && columns.target_name.empty();
    default:
      return texts == 2 && !columns.target_name.empty();
  }
}

std::vector<int32_t> order_of_evaluation(const TextColumns& columns, const EmbedArguments& embed,
                                         const TrainingArguments& training) {
  const auto seed = static_cast<uint64_t>(training.data_seed.value_or(training.seed));
  if (embed.batch_sampler != "no_duplicates")
    return TorchGenerator(seed).randperm(static_cast<int64_t>(columns.size()));
  std::vector<int32_t> order;
  const NoDuplicatesOptions options{static_cast<int>(training.per_device_eval_batch_size), false, seed};
  const auto batches = no_duplicates_batches(text_numbers(columns.texts), options);
  std::vector<bool> taken(columns.size());
  for (const std::vector<int32_t>& batch : batches.batches)
    for (const int32_t row : batch)
      if (!taken[static_cast<size_t>(row)]) order.push_back(row), taken[static_cast<size_t>(row)] = true;
  for (size_t row = 0; row < taken.size(); ++row)
    if (!taken[row]) order.push_back(static_cast<int32_t>(row));
  return order;
}

int64_t length_of_texts(const AutoModel& model) {
  const int64_t length = longest_text(model);
  return std::min(length, modules_of(model).max_seq_length.value_or(length));
}

void check_widths(const SimilarityLoss& loss, const AutoModel& model, const std::string& name) {
  const int64_t width = vector_width(model);
  for (const auto& part : loss.widths)
    if (part.width > width)
      fail(ErrorCode::kUsage, "--matryoshka_dims: found {}, expected at most the {} numbers of {}'s vectors",
           part.width, width, name);
}

void make_samples(EmbedPart& part, const EmbedArguments& embed, const SimilarityLoss& loss,
                  const AutoModel& model, bool learns, ThreadPool& pool) {
  const std::vector<std::string> prompts = prompts_of(embed, part.columns);
  const int longest = static_cast<int>(length_of_texts(model));
  part.samples = tokenize_columns(part.columns, *model.tokenizer,
                                  {.max_length = longest,
                                   .lowers = modules_of(model).do_lower_case,
                                   .prompts = prompts,
                                   .keep_apart = learns && embed.batch_sampler == "no_duplicates"},
                                  pool);
  put_prompt_lengths(part.samples, prompts, model, longest);
  if (has_loss(loss, part.columns)) put_targets(part, loss);
}

}  // namespace lathe
