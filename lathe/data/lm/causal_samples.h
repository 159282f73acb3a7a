#pragma once
#include <cstdint>
#include <vector>

#include "lathe/data/tokenized.h"

namespace lathe {

/// Samples of which each token is learnt from those before it: "labels" of a token is the one after it, −100
/// of the last one of a sample.
TokenizedDataset causal_samples(std::vector<int32_t> ids, std::vector<int64_t> begins);

}  // namespace lathe
