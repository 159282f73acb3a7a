#include "lathe/data/tokenized.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/data/parallel_parts.h"

namespace lathe {

std::vector<int32_t> TokenizedDataset::lengths() const {
  std::vector<int32_t> out(static_cast<size_t>(size()));
  for (int64_t i = 0; i < size(); ++i) out[i] = length(i);
  return out;
}

std::vector<int32_t> TokenizedDataset::scored() const {
  for (const Tensor& tensor : tensors) {
    const auto* labels = std::get_if<std::vector<int32_t>>(&tensor.values);
    if (tensor.extent != Extent::kScored || labels == nullptr || labels->empty()) continue;
    std::vector<int32_t> counts;
    for (int64_t i = 0; i < size(); ++i)
      counts.push_back(static_cast<int32_t>(std::count_if(labels->begin() + first_token(i),
                                                          labels->begin() + first_token(i + 1),
                                                          [](int32_t label) { return label >= 0; })));
    return counts;
  }
  return {};
}

int TokenizedDataset::longest() const {
  int longest = 0;
  for (int64_t row = 0; row < rows(); ++row)
    longest = std::max(longest, static_cast<int>(begins[row + 1] - begins[row]));
  return longest;
}

void TokenizedDataset::append(const Encoding& encoding, const Tokenizer& tokenizer) {
  input_ids.insert(input_ids.end(), encoding.ids.begin(), encoding.ids.end());
  const bool types = tokenizer.gives_types();
  for (const int32_t type : encoding.type_ids) {
    if (types && (type < 0 || type > UINT8_MAX))
      fail(ErrorCode::kInvalidData,
           "tokenizer.json: post_processor: found the token type {}, expected 0 to {}: models have two types "
           "or "
           "one; take the tokenizer that was saved with the model",
           type, UINT8_MAX);
    type_ids.push_back(types ? static_cast<uint8_t>(type) : 0);
  }
  begins.push_back(static_cast<int64_t>(input_ids.size()));
  uncut.push_back(static_cast<int32_t>(std::min<size_t>(encoding.whole, INT32_MAX)));
}

void TokenizedDataset::end_sample() {
  if (first_rows.empty()) first_rows.push_back(0);
  first_rows.push_back(rows());
}

TokenizedDataset tokenize_dataset(const TextDataset& dataset, const Tokenizer& tokenizer, int max_length,
                                  ThreadPool& pool) {
  if (dataset.has_pairs() && dataset.second.size() != dataset.size())
    fail(ErrorCode::kUsage, "{}: found {} second texts, expected {} as there are first ones", dataset.origin,
         dataset.second.size(), dataset.size());
  const EncodeOptions options{.max_length = max_length, .truncation = Truncation::kLongestFirst};
  const auto parts =
      parallel_parts<TokenizedDataset>(pool, static_cast<long>(dataset.size()), [&](long begin, long end) {
        TokenizedDataset part;
        for (long i = begin; i < end; ++i)
          part.append(dataset.has_pairs()
                          ? tokenizer.encode_pair(dataset.first[i], dataset.second[i], options)
                          : tokenizer.encode(dataset.first[i], options),
                      tokenizer);
        return part;
      });
  TokenizedDataset out;
  out.append(parts);
  if (dataset.labelled) {
    const bool several = dataset.label_set.kind == LabelKind::kMultiLabel;
    if (!dataset.labels.empty()) out.tensors.ints("labels") = dataset.labels;
    if (!dataset.targets.empty())
      out.tensors.floats("labels", several ? std::ssize(dataset.label_set.names) : 1) = dataset.targets;
  }
  return out;
}

void TokenizedDataset::append(std::span<const TokenizedDataset> parts) {
  for (const TokenizedDataset& part : parts) {
    const int64_t offset = tokens(), rows_before = rows();
    const auto add = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    add(input_ids, part.input_ids);
    add(type_ids, part.type_ids);
    for (int64_t row = 0; row < part.rows(); ++row) begins.push_back(offset + part.begins[row + 1]);
    if (first_rows.empty() && !part.first_rows.empty()) first_rows.push_back(0);
    for (size_t i = 1; i < part.first_rows.size(); ++i)
      first_rows.push_back(rows_before + part.first_rows[i]);
    add(uncut, part.uncut);
    for (const Tensor& tensor : part.tensors) tensors.append(tensor);
  }
}

}  // namespace lathe
