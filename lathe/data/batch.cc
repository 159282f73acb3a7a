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

/// Rows of a sample have dropout masks of their own: their numbers lie further apart than those of samples.
constexpr int32_t kBetweenRows = 1 << 20;

void pack_row(const TokenizedDataset& data, int64_t row, int32_t ordinal, PackedBatch& out) {
  const int64_t begin = data.begins[row];
  const int length = static_cast<int>(data.begins[row + 1] - begin);
  const std::span ids(data.input_ids.data() + begin, static_cast<size_t>(length));
  out.cls_index.push_back(static_cast<int32_t>(out.input_ids.size()));
  out.input_ids.insert(out.input_ids.end(), ids.begin(), ids.end());
  const auto* types = data.type_ids.data() + begin;
  out.token_type_ids.insert(out.token_type_ids.end(), types, types + length);
  for (int position = 0; position < length; ++position) out.position_ids.push_back(position);
  out.sample_ids.insert(out.sample_ids.end(), ids.size(), ordinal);
  out.cu_seqlens.push_back(static_cast<int32_t>(out.input_ids.size()));
  out.longest_row = std::max(out.longest_row, length);
}

/// Nothing is learnt from the filling.
constexpr int kIgnored = -100;

/// The values of the samples, and of the filling up to `tokens`.
template <typename T>
void gather(const Tensor& from, const std::vector<T>& values, const TokenizedDataset& data,
            std::span<const int32_t> samples, int64_t tokens, std::vector<T>& to) {
  to.clear();
  const bool by_token = from.extent != Extent::kRow;
  for (const int32_t i : samples) {
    const int64_t first = by_token ? data.first_token(i) : i, count = by_token ? data.length(i) : 1;
    const auto begin = values.begin() + first * from.width;
    to.insert(to.end(), begin, begin + count * from.width);
  }
  if (by_token) to.resize(static_cast<size_t>(tokens * from.width), T{kIgnored});
}

void gather(const TokenizedDataset& data, std::span<const int32_t> samples, TokenRounding rounding,
            PackedBatch& out) {
  out.tensors.clear();
  out.scored = out.real_scored = 0;
  for (const Tensor& from : data.tensors) {
    if (from.size() == 0) continue;
    if (const auto* ints = std::get_if<std::vector<int32_t>>(&from.values)) {
      std::vector<int32_t>& to = out.tensors.ints(from.name, from.extent);
      gather(from, *ints, data, samples, out.tokens, to);
      if (from.extent == Extent::kScored) keep_scored(rounding, to, out);
    } else {
      gather(from, std::get<std::vector<float>>(from.values), data, samples, out.tokens,
             out.tensors.floats(from.name, from.width));
    }
  }
}

}  // namespace

void keep_scored(TokenRounding rounding, std::vector<int32_t>& labels, PackedBatch& out, int64_t least) {
  std::vector<int32_t>& index = out.tensors.ints("scored_index", Extent::kScored);
  index.clear();
  for (int32_t token = 0; token < out.real_tokens(); ++token)
    if (const int32_t label = labels[static_cast<size_t>(token)]; label >= 0) {
      labels[index.size()] = label;
      index.push_back(token);
    }
  out.real_scored = static_cast<int>(index.size());
  out.scored = static_cast<int>(rounding(std::max<int64_t>(least, out.real_scored)));
  labels.resize(index.size());
  labels.resize(static_cast<size_t>(out.scored), kIgnored);
  index.resize(static_cast<size_t>(out.scored), 0);
}

void pack_batch(const TokenizedDataset& data, std::span<const int32_t> samples, const PackOptions& options,
                PackedBatch& out) {
  check(data, samples, options);
  for (auto* list : {&out.input_ids, &out.token_type_ids, &out.position_ids, &out.sample_ids, &out.cls_index})
    list->clear();
  out.cu_seqlens.assign(1, 0);
  out.longest_row = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto ordinal = static_cast<uint32_t>(options.first_ordinal) + static_cast<uint32_t>(i);
    for (int64_t row = 0; row < data.rows_of(samples[i]); ++row)
      pack_row(data, data.first_row(samples[i]) + row,
               static_cast<int32_t>(ordinal + static_cast<uint32_t>(row) * kBetweenRows), out);
  }
  out.rows = static_cast<int>(out.cls_index.size());
  const int64_t tokens = std::max<int64_t>(std::ssize(out.input_ids), options.least_tokens);
  const auto padded = static_cast<size_t>(options.rounding(tokens));
  for (auto* list : {&out.input_ids, &out.token_type_ids, &out.position_ids, &out.sample_ids})
    list->resize(padded, 0);
  out.tokens = static_cast<int>(padded);
  gather(data, samples, options.rounding, out);
  if (!data.first_rows.empty()) {
    std::vector<int32_t>& first_rows = out.tensors.ints(kFirstRows);
    first_rows.push_back(0);
    for (const int32_t i : samples)
      first_rows.push_back(first_rows.back() + static_cast<int32_t>(data.rows_of(i)));
  }
  out.samples.assign(samples.begin(), samples.end());
  out.all_input_ids.clear();
}

void part_of_batch(const PackedBatch& batch, int first, int count, TokenRounding rounding, PackedBatch& out) {
  const auto& first_rows = batch.tensors.ints(kFirstRows);
  const auto sample = static_cast<size_t>(first), samples = static_cast<size_t>(count);
  const auto row = static_cast<size_t>(first_rows.at(sample));
  const auto rows = static_cast<size_t>(first_rows.at(sample + samples)) - row;
  const auto token = static_cast<size_t>(batch.cu_seqlens.at(row));
  const auto tokens = static_cast<size_t>(batch.cu_seqlens.at(row + rows)) - token;
  const auto padded = static_cast<size_t>(rounding(static_cast<int64_t>(tokens)));
  const auto part = [](const auto& from, size_t begin, size_t size, auto& to) {
    to.assign(from.begin() + static_cast<ptrdiff_t>(begin),
              from.begin() + static_cast<ptrdiff_t>(begin + size));
  };
  const auto from_zero = [](std::vector<int32_t>& places) {
    const int32_t offset = places.empty() ? 0 : places[0];
    for (int32_t& place : places) place -= offset;
  };
  using List = std::vector<int32_t> PackedBatch::*;
  for (const List list : {&PackedBatch::input_ids, &PackedBatch::token_type_ids, &PackedBatch::position_ids,
                          &PackedBatch::sample_ids}) {
    part(batch.*list, token, tokens, out.*list);
    (out.*list).resize(padded, 0);
  }
  part(batch.cu_seqlens, row, rows + 1, out.cu_seqlens);
  part(batch.cls_index, row, rows, out.cls_index);
  from_zero(out.cu_seqlens), from_zero(out.cls_index);
  out.rows = static_cast<int>(rows), out.tokens = static_cast<int>(padded);
  out.longest_row = 0;
  for (size_t i = 0; i < rows; ++i)
    out.longest_row = std::max(out.longest_row, out.cu_seqlens[i + 1] - out.cu_seqlens[i]);
  out.scored = out.real_scored = 0;
  out.tensors.clear();
  const auto all = static_cast<size_t>(batch.sample_count());
  for (const Tensor& tensor : batch.tensors) {
    if (tensor.size() == 0 || tensor.name == kFirstRows) continue;
    const size_t width = tensor.size() / all;
    if (const auto* ints = std::get_if<std::vector<int32_t>>(&tensor.values))
      part(*ints, sample * width, samples * width, out.tensors.ints(tensor.name));
    else
      part(std::get<std::vector<float>>(tensor.values), sample * width, samples * width,
           out.tensors.floats(tensor.name, tensor.width));
  }
  std::vector<int32_t>& begins = out.tensors.ints(kFirstRows);
  part(first_rows, sample, samples + 1, begins);
  from_zero(begins);
  part(batch.samples, sample, samples, out.samples);
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
