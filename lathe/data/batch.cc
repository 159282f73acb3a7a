#include "lathe/data/batch.h"

#include <algorithm>

#include "lathe/core/error.h"

namespace lathe {
namespace {

void check(const TokenizedDataset& data, std::span<const int32_t> samples, const PackOptions& options) {
  if (options.rounding.least < 1 || options.rounding.most < options.rounding.least)
    fail(ErrorCode::kUsage, "pack: expected a rounding of 1 <= least <= most, found {}, {}",
         options.rounding.least, options.rounding.most);
  for (const int32_t i : samples)
    if (i < 0 || i >= data.size())
      fail(ErrorCode::kUsage, "pack: expected a sample below {}, found {}", data.size(), i);
}

void pack_row(const TokenizedDataset& data, int32_t sample, int32_t ordinal, PackedBatch& out) {
  const auto ids = data.ids(sample);
  const int length = static_cast<int>(ids.size());
  out.cls_index.push_back(static_cast<int32_t>(out.input_ids.size()));
  out.input_ids.insert(out.input_ids.end(), ids.begin(), ids.end());
  const auto* types = data.type_ids.data() + data.begins[sample];
  out.token_type_ids.insert(out.token_type_ids.end(), types, types + length);
  for (int position = 0; position < length; ++position) out.position_ids.push_back(position);
  out.sample_ids.insert(out.sample_ids.end(), ids.size(), ordinal);
  out.cu_seqlens.push_back(static_cast<int32_t>(out.input_ids.size()));
  out.longest_row = std::max(out.longest_row, length);
}

template <typename T>
void gather(const std::vector<T>& from, std::span<const int32_t> samples, int width, std::vector<T>& to) {
  to.clear();
  if (from.empty()) return;
  for (const int32_t i : samples)
    to.insert(to.end(), from.begin() + int64_t{i} * width, from.begin() + int64_t{i} * width + width);
}

}  // namespace

void pack_batch(const TokenizedDataset& data, std::span<const int32_t> samples, const PackOptions& options,
                PackedBatch& out) {
  check(data, samples, options);
  for (auto* list : {&out.input_ids, &out.token_type_ids, &out.position_ids, &out.sample_ids, &out.cls_index})
    list->clear();
  out.cu_seqlens.assign(1, 0);
  out.longest_row = 0;
  out.rows = static_cast<int>(samples.size());
  for (int row = 0; row < out.rows; ++row) pack_row(data, samples[row], options.first_ordinal + row, out);
  const int64_t tokens = std::max<int64_t>(std::ssize(out.input_ids), options.least_tokens);
  const auto padded = static_cast<size_t>(options.rounding(tokens));
  for (auto* list : {&out.input_ids, &out.token_type_ids, &out.position_ids, &out.sample_ids})
    list->resize(padded, 0);
  out.tokens = static_cast<int>(padded);
  gather(data.labels, samples, 1, out.labels);
  gather(data.targets, samples, data.num_targets, out.targets);
  gather(data.start_positions, samples, 1, out.start_positions);
  gather(data.end_positions, samples, 1, out.end_positions);
  out.samples.assign(samples.begin(), samples.end());
  out.all_input_ids.clear();
}

void pack_all_input_ids(const TokenizedDataset& data, std::span<const std::vector<int32_t>> samples,
                        PackedBatch& out) {
  const auto tokens = static_cast<size_t>(out.tokens);
  out.all_input_ids.clear();
  for (size_t rank = 0; rank < samples.size(); ++rank) {
    for (const int32_t sample : samples[rank]) {
      const auto ids = data.ids(sample);
      out.all_input_ids.insert(out.all_input_ids.end(), ids.begin(), ids.end());
    }
    if (out.all_input_ids.size() > (rank + 1) * tokens)
      fail(ErrorCode::kInternal, "pack: rank {} has more than the {} tokens of a batch", rank, tokens);
    out.all_input_ids.resize((rank + 1) * tokens, 0);
  }
}

}  // namespace lathe
