#pragma once
#include "lathe/data/tokenized.h"
#include "lathe/models/task_model.h"

namespace lathe {

/// Checks that data fits a Trainer and a head with this number of labels.  Labels below 0 mean none.
/// Errors: kInvalidData, naming `what` the data are and the sample: for a sample without tokens, with fewer
/// tokens or types than `begins` says, or with a label that the head does not have; for labels, targets or
/// positions of another head, or more or fewer of them than the samples need. kUnsupported for a masked LM.
void check_dataset(const TokenizedDataset& data, Problem problem, int64_t labels, const char* what);

/// Whether the data has something to learn from or to score.
bool is_labelled(const TokenizedDataset& data, Problem problem);

}  // namespace lathe
