#include "lathe/data/lm/causal_samples.h"

#include <utility>

namespace lathe {
namespace {

constexpr int32_t kIgnored = -100;  // of labels, in Hugging Face

}  // namespace

TokenizedDataset causal_samples(std::vector<int32_t> ids, std::vector<int64_t> begins) {
  TokenizedDataset out;
  std::vector<int32_t>& labels = out.tensors.ints("labels", Extent::kScored);
  labels.assign(ids.begin() + (ids.empty() ? 0 : 1), ids.end());
  labels.resize(ids.size(), kIgnored);
  for (size_t row = 0; row + 1 < begins.size(); ++row)
    if (begins[row + 1] > begins[row]) labels[static_cast<size_t>(begins[row + 1]) - 1] = kIgnored;
  out.type_ids.assign(ids.size(), 0);
  out.input_ids = std::move(ids);
  out.begins = std::move(begins);
  return out;
}

}  // namespace lathe
