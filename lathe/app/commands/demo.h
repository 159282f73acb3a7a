#pragma once
#include <vector>

#include "lathe/data/dataset.h"
#include "lathe/data/demo/demo_questions.h"
#include "lathe/tokenizers/tokenizer.h"

namespace lathe {

/// The demo's questions as a labelled data set.
TextDataset demo_dataset(const std::vector<DemoQuestion>& questions);
/// The tokenizer that knows their words.
Tokenizer demo_tokenizer();

}  // namespace lathe
