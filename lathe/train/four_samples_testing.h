// A model and data for tests that check what a run leaves, not what it learns.
#pragma once
#include <string>

#include "lathe/core/source_folder_testing.h"
#include "lathe/data/tokenized.h"

namespace lathe {

inline const std::string kTinyModel = source_path("tests/golden/tiny_bert/classification");

/// Four texts of three tokens, in two classes.
inline TokenizedDataset four_samples() {
  TokenizedDataset data;
  for (int32_t sample = 0; sample < 4; ++sample) {
    data.input_ids.insert(data.input_ids.end(), {2, 5 + sample, 3});
    data.type_ids.insert(data.type_ids.end(), 3, 0);
    data.begins.push_back(3 * (sample + 1));
    data.tensors.ints("labels").push_back(sample % 2);
  }
  return data;
}

}  // namespace lathe
