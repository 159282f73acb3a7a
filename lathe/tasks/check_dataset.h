#pragma once
#include "lathe/tasks/task.h"

namespace lathe {

/// Checks that data fits a task.  Labels below 0 mean none.
/// Errors: kInvalidData, naming `what` the data are and the sample: for a sample without tokens, with fewer
/// tokens or types than `begins` says, or with a label that the head does not have; for labels of another
/// task, or more or fewer of them than the samples need.
void check_dataset(const TokenizedDataset& data, const Task& task, const char* what);

}  // namespace lathe
