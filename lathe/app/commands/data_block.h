#pragma once
#include "lathe/app/commands/script_run.h"
#include "lathe/app/commands/script_texts.h"
#include "lathe/data/squad.h"

namespace lathe {

/// Says what a training learns from before it begins: rows and labels with their counts, lengths in tokens,
/// how many samples are cut, three samples; as warnings what is odd about the labels, and texts that
/// validation data share with training data.  train: the tokens of texts.train.
void say_data(ScriptRun& run, const Texts& texts, const TokenizedDataset& train);

/// The same for questions: questions, contexts and answers, lengths, how many become several windows.
/// windows: of all questions.
void say_questions(ScriptRun& run, const SquadDataset& train, const QaFeatures& windows);

}  // namespace lathe
