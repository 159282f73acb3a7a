#pragma once
#include "lathe/tasks/task.h"

namespace lathe {

/// All tasks.  labels: the number of classes or values of a sample; where a task has none it is not read.
TaskPtr single_label(int64_t labels);     ///< one class of several, cross entropy
TaskPtr multi_label(int64_t labels);      ///< any of several, binary cross entropy
TaskPtr regression(int64_t labels);       ///< values, squared error
TaskPtr token_labels(int64_t labels);     ///< a class for each labelled token, cross entropy
TaskPtr question_answering(int64_t = 2);  ///< a span of the text, the mean of two cross entropies
TaskPtr masked_lm(int64_t);               ///< a token of the vocabulary, cross entropy over labelled tokens
TaskPtr causal_lm(int64_t);               ///< the next token, cross entropy over labelled tokens
TaskPtr multiple_choice(int64_t = 1);     ///< one row of a sample's several, cross entropy over them
TaskPtr sentence_vectors(int64_t = 0);    ///< a vector of each text; it has no loss
/// Those of a CrossEncoder, whose config.json names no problem_type: a score of a pair with binary cross
/// entropy or squared error, or one class of several.
TaskPtr pair_score(int64_t = 1);
TaskPtr pair_value(int64_t = 1);
TaskPtr pair_class(int64_t labels);

/// Makes a task as soon as the number of labels is known.
using MakeTask = TaskPtr (*)(int64_t labels);

}  // namespace lathe
