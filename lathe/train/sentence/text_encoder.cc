#include "lathe/train/sentence/text_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "lathe/core/error.h"
#include "lathe/models/sentence/pooling_inputs.h"
#include "lathe/models/sentence/sentence_folder.h"
#include "lathe/text/text.h"
#include "lathe/train/adapter/adapter_model.h"

namespace lathe {
namespace {

/// A GPU needs more tokens at a time to be busy than the threads of a CPU.
int64_t default_batch_tokens(const Backend& backend) {
  return backend.info().kind == "cuda" || backend.info().kind == "mps" ? 16384 : 8192;
}

Session::Options session_options_of(const TextEncoderOptions& options) {
  Session::Options out;
  out.program.dtype = options.dtype;
  out.program.quantization = options.quantization;
  if (options.quantization == nn::Quantization::kNone) out.program.storage.frozen_products = options.dtype;
  return out;
}

const SentenceFolder& folder_of(const AutoModel& model) {
  static const SentenceFolder plain;
  return model.config.sentence ? *model.config.sentence : plain;
}

int longest_of(const AutoModel& model, int asked) {
  int64_t longest = longest_text(model);
  if (asked > 0)
    longest = std::min<int64_t>(longest, asked);
  else if (const auto most = folder_of(model).max_seq_length)
    longest = std::min<int64_t>(longest, *most);
  return static_cast<int>(longest);
}

/// The least 2ᵏ or 3 · 2ᵏ that is not below n.
int64_t round_up(int64_t n) {
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
  return power >= 4 && power / 4 * 3 >= n ? power / 4 * 3 : power;
}

}  // namespace

int64_t vector_width(const AutoModel& model) {
  int64_t width = model.model->hidden_size();
  for (const SentenceStep& step : folder_of(model).steps)
    if (step.dense) width = step.dense->out;
  return width;
}

AutoModel sentence_model(FileSystem& fs, const std::string& folder,
                         const std::function<std::string(const std::string& base)>& fetch) {
  ModelFolders folders{folder, folder, folder};
  if (fetch) folders = folders_of(fs, folder, fetch);
  if (is_sentence_folder(fs, folder)) {
    const std::string path = read_sentence_folder(fs, folder).transformer_path;
    const std::string transformer = path.empty() ? folder : join_path(folder, path);
    for (std::string* part : {&folders.weights, &folders.config, &folders.tokenizer})
      if (*part == folder) *part = transformer;
    folders.sentence = folder;
  }
  AutoModel model = from_pretrained(fs, folders, {sentence_vectors, {}, false});
  if (!model.adapter) model.model->set_trainable("", false);  // an adapter's values are those that train
  return model;
}

/// Source: SentenceTransformer._resolve_prompt.
std::string chosen_prompt(const AutoModel& model, const std::optional<std::string>& prompt,
                          const std::optional<std::string>& name) {
  if (prompt) return *prompt;
  const SentenceFolder& folder = folder_of(model);
  const std::optional<std::string>& chosen = name ? name : folder.default_prompt_name;
  if (!chosen) return "";
  const auto found = folder.prompts.find(*chosen);
  if (found != folder.prompts.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, text] : folder.prompts) names.push_back(known);
  fail(ErrorCode::kUsage, "--prompt_name: found {}, but {} has {}", *chosen, model.folder,
       names.empty() ? "no prompts; --prompt gives one"
                     : fmt::format("the prompts {}; take one of them, or --prompt", fmt::join(names, ", ")));
}

TextEncoder::TextEncoder(Backend& backend, AutoModel& model, ThreadPool& pool,
                         const TextEncoderOptions& options)
    : model_(model),
      pool_(pool),
      options_(options),
      own_(std::make_unique<Session>(backend, *model.model, session_options_of(options))),
      session_(*own_),
      longest_(longest_of(model, options.max_seq_length)),
      full_width_(vector_width(model)) {
  if (options_.batch_tokens <= 0) options_.batch_tokens = default_batch_tokens(backend);
  const LoadReport report = initialize(session_.parameters(), model, 0);
  if (!report.missing.empty())
    fail(ErrorCode::kInvalidData, "{}\nSuch a model gives random vectors; take one with all its weights.",
         to_string(report, *model.model, model.folder));
}

TextEncoder::TextEncoder(Session& session, const AutoModel& model, ThreadPool& pool,
                         const TextEncoderOptions& options)
    : model_(model),
      pool_(pool),
      options_(options),
      session_(session),
      longest_(longest_of(model, options.max_seq_length)),
      full_width_(vector_width(model)) {
  if (options_.batch_tokens <= 0) options_.batch_tokens = default_batch_tokens(session.backend());
  options_.quantization = nn::Quantization::kNone;
}

int64_t TextEncoder::width(const VectorForm& form) const {
  const int64_t asked = form.truncate_dim.value_or(full_width_);
  if (asked < 1 || asked > full_width_)
    fail(ErrorCode::kUsage, "--truncate_dim: found {}, expected 1 to the {} numbers of {}'s vectors", asked,
         full_width_, model_.folder);
  if (form.truncate_dim) return asked;
  return std::min(full_width_, folder_of(model_).truncate_dim.value_or(full_width_));
}

/// Source: sentence-transformers' Transformer._get_prompt_length.
int32_t prompt_tokens(const AutoModel& model, const std::string& prompt, int longest) {
  if (prompt.empty() || folder_of(model).pooling.include_prompt) return 0;
  const Encoding encoding = model.tokenizer->encode(prompt, {.max_length = longest});
  const bool closed = encoding.size() > 0 && encoding.sequence_ids.back() == -1;
  return static_cast<int32_t>(encoding.size()) - static_cast<int32_t>(closed);
}

TokenizedDataset TextEncoder::tokenize(std::vector<std::string> texts, const std::string& prompt) const {
  const bool lowers = folder_of(model_).do_lower_case;
  for (std::string& text : texts) {
    if (!prompt.empty()) text.insert(0, prompt);
    if (lowers) text = to_lower(text);
  }
  TextDataset data;
  data.first = std::move(texts);
  TokenizedDataset tokens = tokenize_dataset(data, *model_.tokenizer, longest_, pool_);
  if (const int32_t left_out = prompt_tokens(model_, prompt, longest_); left_out > 0)
    tokens.tensors.ints(kPromptLength).assign(static_cast<size_t>(tokens.size()), left_out);
  return tokens;
}

std::vector<TextEncoder::Batch> TextEncoder::batches_of(const TokenizedDataset& data, int32_t filler) const {
  std::vector<int32_t> order(static_cast<size_t>(filler));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return data.length(a) > data.length(b); });
  std::vector<Batch> all;
  int64_t texts_tokens = 0;
  for (const int32_t sample : order) {
    const int64_t rows = all.empty() ? 1 : round_up(all.back().texts + 1);
    const int64_t tokens =
        texts_tokens + data.length(sample) + (all.empty() ? 0 : rows - all.back().texts - 1);
    if (all.empty() || tokens > options_.batch_tokens) all.emplace_back(), texts_tokens = 0;
    Batch& batch = all.back();
    batch.samples.push_back(sample);
    ++batch.texts;
    texts_tokens += data.length(sample);
  }
  for (Batch& batch : all) {
    batch.samples.resize(static_cast<size_t>(round_up(batch.texts)), filler);
    batch.tokens = options_.batch_tokens;
  }
  if (!all.empty()) {  // those before the last are full
    Batch& last = all.back();
    last.tokens = std::min(last.tokens, round_up(texts_tokens + std::ssize(last.samples) - last.texts));
  }
  return all;
}

namespace {

/// Source: SentenceTransformer._inference: cut, then torch.nn.functional.normalize.
void put(std::span<const float> vector, bool normalize, float* to) {
  double squares = 0;
  for (const float x : vector) squares += static_cast<double>(x) * x;
  const double length = normalize ? std::max(std::sqrt(squares), 1e-12) : 1;
  for (size_t i = 0; i < vector.size(); ++i) to[i] = static_cast<float>(vector[i] / length);
}

}  // namespace

std::vector<float> TextEncoder::encode(TokenizedDataset data, const VectorForm& form,
                                       const std::function<void(int64_t)>& done) {
  const auto filler = static_cast<int32_t>(data.size());
  data.input_ids.push_back(0), data.type_ids.push_back(0), data.begins.push_back(data.tokens() + 1);
  if (data.tensors.find(kPromptLength) != nullptr) data.tensors.ints(kPromptLength).push_back(0);
  session_.programs().expect_rows(ProgramCache::Rows::kEvaluated, data.longest());
  const auto kept = static_cast<size_t>(width(form)), full = static_cast<size_t>(full_width_);
  std::vector<float> out(static_cast<size_t>(filler) * kept), vectors;
  PackedBatch packed;
  int64_t count = 0;
  for (const Batch& batch : batches_of(data, filler)) {
    pack_batch(data, batch.samples, {session_.token_rounding(), 0, batch.tokens}, packed);
    session_.evaluate(packed, vectors, {}, {}, options_.quantization);
    for (size_t row = 0; row < static_cast<size_t>(batch.texts); ++row)
      put(std::span(vectors).subspan(row * full, kept), form.normalize,
          out.data() + static_cast<size_t>(batch.samples[row]) * kept);
    count += batch.texts;
    if (done) done(count);
  }
  return out;
}

}  // namespace lathe
