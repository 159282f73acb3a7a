#pragma once
#include <string>
#include <vector>

#include "lathe/data/batch.h"
#include "lathe/io/safetensors.h"

namespace lathe {

/// The values of a golden tensor as f32; empty: it is not stored.
inline std::vector<float> floats(const SafetensorsFile& file, const std::string& name) {
  const TensorView* view = file.find(name);
  if (view == nullptr) return {};
  std::vector<float> values(static_cast<size_t>(elements(view->shape)));
  to_f32(*view, values.data());
  return values;
}

/// A stored padded batch without its labels, packed: rows without their padding, then filling up to a
/// multiple of 32 tokens.  A token's place in the padded batch is its sample_ids and position_ids.
inline PackedBatch packed_batch(const SafetensorsFile& file) {
  PackedBatch batch;
  const auto ids = floats(file, "input_ids"), mask = floats(file, "attention_mask"),
             types = floats(file, "token_type_ids");
  const Shape shape = file.find("input_ids")->shape;
  batch.rows = static_cast<int>(shape[0]);
  batch.cu_seqlens = {0};
  for (int64_t row = 0; row < shape[0]; ++row) {
    batch.cls_index.push_back(batch.cu_seqlens.back());
    for (int64_t t = 0; t < shape[1]; ++t) {
      const auto at = static_cast<size_t>(row * shape[1] + t);
      if (mask[at] == 0) continue;
      batch.input_ids.push_back(static_cast<int32_t>(ids[at]));
      batch.token_type_ids.push_back(static_cast<int32_t>(types[at]));
      batch.position_ids.push_back(static_cast<int32_t>(t));
      batch.sample_ids.push_back(static_cast<int32_t>(row));
    }
    batch.cu_seqlens.push_back(static_cast<int32_t>(batch.input_ids.size()));
  }
  batch.tokens = (batch.cu_seqlens.back() + 31) / 32 * 32;
  for (auto* v : {&batch.input_ids, &batch.token_type_ids, &batch.position_ids, &batch.sample_ids})
    v->resize(static_cast<size_t>(batch.tokens), 0);
  return batch;
}

}  // namespace lathe
