#pragma once
#include <algorithm>
#include <vector>

#include "lathe/data/batch.h"

namespace lathe {

/// Rows of these lengths and made-up content that depends on `number`, filled up to `tokens`; labels below
/// `classes`, ids below 40.
inline PackedBatch made_batch(const std::vector<int>& lengths, int tokens, int classes, int number) {
  PackedBatch b;
  b.rows = static_cast<int>(lengths.size()), b.tokens = tokens;
  b.cu_seqlens = {0};
  for (int row = 0; row < b.rows; ++row) {
    const int length = lengths[static_cast<size_t>(row)];
    b.longest_row = std::max(b.longest_row, length);
    b.cls_index.push_back(b.cu_seqlens.back());
    b.tensors.ints("labels").push_back((row + number) % classes);
    for (int t = 0; t < length; ++t) {
      b.input_ids.push_back((7 * row + 11 * t + 13 * number) % 40);
      b.position_ids.push_back(t);
      b.sample_ids.push_back(row);
    }
    b.cu_seqlens.push_back(static_cast<int32_t>(b.input_ids.size()));
  }
  for (auto* ids : {&b.input_ids, &b.position_ids, &b.sample_ids, &b.token_type_ids})
    ids->resize(static_cast<size_t>(tokens), 0);
  return b;
}

/// Samples of 5 to 11 tokens with made-up content, in two classes; ids below 40.
inline TokenizedDataset made_samples(int count) {
  TokenizedDataset d;
  for (int i = 0; i < count; ++i) {
    for (int t = 0; t < 5 + i % 7; ++t) {
      d.input_ids.push_back((3 * i + 5 * t) % 40);
      d.type_ids.push_back(0);
    }
    d.begins.push_back(static_cast<int64_t>(d.input_ids.size()));
    d.tensors.ints("labels").push_back(i % 2);
  }
  return d;
}

}  // namespace lathe
