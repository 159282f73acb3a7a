#pragma once
#include <string>
#include <vector>

#include "lathe/settings/training_arguments.h"
#include "lathe/train/trainer_state.h"

namespace lathe {

/// What a model card says in addition to the run itself.  An empty member is left out.
struct CardFacts {
  std::string base_model;                          ///< name on the Hub, or a folder; empty: from scratch
  bool on_hub = false;                             ///< base_model is a name on the Hub
  bool adapter = false;                            ///< only a LoRA adapter of base_model was trained
  std::string task, task_name;                     ///< "text-classification", "Text Classification"
  std::string language;                            ///< "en"
  std::string dataset, dataset_tag, dataset_args;  ///< "GLUE MRPC", "glue", "mrpc"
  std::string library = "transformers";            ///< what reads the model
  std::vector<std::string> tags = {};              ///< in addition to the Trainer's
  std::string pipeline_tag = {};                   ///< for what the Hub offers the model, where it must say
};

/// README.md of a fine-tuned model: metadata for the Hub, results, hyperparameters, a table of the
/// evaluations, in the words and the order of transformers' Trainer.
/// Source: transformers 5.23 modelcard.py, TrainingSummary.
std::string model_card(const CardFacts& facts, const TrainingArguments& args, const TrainerState& state,
                       int ranks);

}  // namespace lathe
