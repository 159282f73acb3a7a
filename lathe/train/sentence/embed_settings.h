#pragma once
#include <memory>
#include <string>
#include <vector>

#include "lathe/data/retrieval/text_columns.h"
#include "lathe/models/sentence/sentence_folder.h"
#include "lathe/settings/training_arguments.h"
#include "lathe/tasks/text_similarity.h"
#include "lathe/train/auto_model.h"

namespace lathe {

/// The loss of these settings for data of these columns.  Errors: kUsage, naming flag and value.
SimilarityLoss loss_of(const EmbedArguments& args, const TextColumns& columns);
/// Errors: kInvalidData, naming file and columns, for data that the loss does not fit.
void check_columns(const SimilarityLoss& loss, const TextColumns& columns);

/// What a loss asks of the columns of the data that it learns from.  Data that are only evaluated (not
/// `learns`) may have other columns than those that it reads.
TextColumnRules column_rules(const EmbedArguments& args, const Table& table, bool learns);

/// Puts the modules of sentence-transformers into `folders`: those of the model's folder, or for an encoder
/// without any the pooling of --pooling_mode.  Errors: as read_sentence_folder; kUsage for an unknown pooling
/// and where the folder has its own.
void find_modules(ModelFolders& folders, const EmbedArguments& args);

/// What comes before the texts of each column; empty: nothing does.  Errors: kUsage for a text that begins
/// as JSON and is none.
std::vector<std::string> prompts_of(const EmbedArguments& args, const TextColumns& columns);
/// Errors: also kUsage for the prompt of a column that none of the data have. columns: of all of them.
void check_prompts(const EmbedArguments& args, const std::vector<std::string>& columns);

}  // namespace lathe
