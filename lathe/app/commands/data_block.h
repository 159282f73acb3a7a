#pragma once
#include "lathe/app/commands/script_run.h"
#include "lathe/app/commands/script_texts.h"
#include "lathe/data/own/choice_table.h"
#include "lathe/data/retrieval/text_columns.h"
#include "lathe/data/squad.h"
#include "lathe/data/words/word_labels.h"

namespace lathe {

/// Says what a training learns from before it begins: rows and labels with their counts, lengths in tokens,
/// how many samples are cut, three samples; as warnings what is odd about the labels, and texts that
/// validation data share with training data.  train: the tokens of texts.train.  doubts_labels: false where
/// the caller says what is odd about them.
void say_data(ScriptRun& run, const Texts& texts, const TokenizedDataset& train, bool doubts_labels = true);

/// The same for questions: questions, contexts and answers, lengths, how many become several windows.
/// windows: of all questions.
void say_questions(ScriptRun& run, const SquadDataset& train, const QaFeatures& windows);

/// The same for words with tags.  ids: of the tags, among `labels`.  samples: the tokens of `train`.
void say_sentences(ScriptRun& run, const WordTable& train, const TagIds& ids, const TagLabels& labels,
                   const TokenizedDataset& samples);

/// The same for contexts with endings.  samples: the tokens of `train`.
void say_choices(ScriptRun& run, const ChoiceTable& train, const TokenizedDataset& samples);

/// The same for rows of texts that are trained to be alike or not. loss: its name.
void say_texts(ScriptRun& run, const TextColumns& train, const TokenizedDataset& samples,
               const std::string& loss);

/// The same for samples of texts without labels.
void say_samples(ScriptRun& run, const TokenizedDataset& train, const Tokenizer& tokenizer);

/// Warns of words that no label is learnt or told for.  what: "training"; length: of samples, in tokens.
void say_cut_words(ScriptRun& run, const char* what, const WordTable& table,
                   const LabelledSentences& labelled, int64_t length);

}  // namespace lathe
