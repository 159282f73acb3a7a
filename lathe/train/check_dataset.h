#pragma once
#include "lathe/data/tokenized.h"
#include "lathe/models/task_model.h"

namespace lathe {

/// What a Trainer asks of data for a head of so many labels.  Labels below 0 stand for none.
/// Errors: kInvalidData, naming `what` they are and the sample, for a sample without tokens, fewer tokens or
/// types than `begins` says, a label that the head has not, and labels, targets or positions that are of
/// another head, or more or fewer than the samples want; kUnsupported for a masked LM.
void check_dataset(const TokenizedDataset& data, Problem problem, int64_t labels, const char* what);

/// Whether there is something to learn from, or to be scored on.
bool is_labelled(const TokenizedDataset& data, Problem problem);

}  // namespace lathe
