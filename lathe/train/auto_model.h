#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/engine/parameters.h"
#include "lathe/io/model_folder.h"
#include "lathe/models/make_model.h"
#include "lathe/models/pretrained.h"
#include "lathe/tasks/tasks.h"
#include "lathe/tokenizers/tokenizer.h"
#include "lathe/train/adapter/adapter_config.h"

namespace lathe {

class Checksum;
struct CrossEncoderFolder;

/// A model and what belongs to it: configuration, labels, tokenizer, and the checkpoint that holds its
/// weights.
struct AutoModel {
  std::string folder;  ///< where it was read from; empty: made from a configuration
  ModelConfig config;
  std::vector<std::string> labels;  ///< of a task that names them
  std::unique_ptr<TaskModel> model;
  std::shared_ptr<Checkpoint> checkpoint;  ///< null: all weights are new
  std::optional<Tokenizer> tokenizer;
  bool ignore_mismatched_sizes = false;  ///< weights of another shape start anew; false: an error
  int64_t stored_tokens = 0;  ///< "vocab_size" of the checkpoint, if the tokenizer has more; 0: as configured
  std::shared_ptr<const Adapter> adapter = nullptr;  ///< what is trained and saved (add_adapter); null: all
  /// Of sentence-transformers' CrossEncoder, whose files are saved too; null: of no such model.
  std::shared_ptr<const CrossEncoderFolder> cross_encoder = nullptr;
};

/// What a head should be where the folder's configuration does not decide.
struct HeadOptions {
  MakeTask task = single_label;
  std::vector<std::string> labels;  ///< empty: as in config.json; regression takes {"LABEL_0"}
  bool ignore_mismatched_sizes = false;
  /// A tokenizer with more tokens than the model makes its tables larger; else it is an error.
  bool grows = false;
  TaskPtr made = nullptr;  ///< the task itself, instead of what `task` makes

  TaskPtr task_of(int64_t labels_of_it) const { return made ? made : task(labels_of_it); }
};

/// Where the parts of a model are.  Without weights all weights are new; without tokenizer the model has
/// none.
struct ModelFolders {
  std::string weights, config, tokenizer;
  std::string config_overrides = {};  ///< of keys of the configuration (with_overrides)
  std::string adapter = {};           ///< the folder of an adapter that the model has
  std::string sentence = {};  ///< of sentence-transformers: modules that follow (ModelConfig::sentence)
  std::shared_ptr<const SentenceFolder> modules = nullptr;  ///< instead of what `sentence` says of them
};

/// The configuration of a model.  Errors: as read_model_config and with_overrides.
ModelConfig read_config(FileSystem& fs, const ModelFolders& folders);

/// Reads config.json, tokenizer and weights (mapped, not copied) of a model folder.
/// Errors: kNotFound, kInvalidData or kUnsupported, naming the file; kInvalidData for two labels of one name.
AutoModel from_pretrained(FileSystem& fs, const std::string& folder, const HeadOptions& head);
/// The same for parts from several folders.  head.grows: "vocab_size" of the configuration becomes the
/// number of the tokenizer's tokens, if those are more.
AutoModel from_pretrained(FileSystem& fs, const ModelFolders& folders, const HeadOptions& head);

/// A model with new weights.  Errors: as parse_model_config, for what a config.json must not say.
AutoModel from_config(const ModelConfig& config, const HeadOptions& head, std::optional<Tokenizer> tokenizer);

/// Whether the TaskModel is one that a program defines itself: no configuration makes it.
bool is_programs_own(const AutoModel& model);

/// The same model again, with its own modules, none of them frozen.  Its weights come from the same
/// checkpoint.  Errors: kUnsupported for a TaskModel that a program defines itself: no configuration makes
/// it.
AutoModel twin_of(const AutoModel& model);

/// The most tokens per text that both the tokenizer and the positions allow.
int longest_text(const AutoModel& model);

/// Of a model that classifies texts; it: what messages call it.  Errors: kUnsupported where the padding comes
/// before the first token, which the scores are made of.
void check_padding(const AutoModel& model, const char* it);

/// What a classifier of this configuration is for, whichever head was saved: "problem_type"; without it
/// regression if there is one label.
MakeTask classification_task(const ModelConfig& config);

/// The task that a saved model was trained for, from "architectures", "problem_type" and the number of
/// labels; classification if no architecture is named.  Errors: kInvalidData for an architecture that Lathe
/// does not know.
MakeTask saved_task(const ModelConfig& config);

/// Writes all weights: first those of the checkpoint, then new ones for what it lacks.  New ones are drawn in
/// declared order from a generator seeded with `seed` (draw_new), and all of a masked language model without
/// a checkpoint by draw_from_scratch.  Rows of tokens that the checkpoint lacks (stored_tokens) are the mean
/// of those it has, as resize_token_embeddings makes them but for its noise of 1e-9.  Returns the report.
/// Errors: kInvalidData for weights that are not finite, or that have another shape without
/// model.ignore_mismatched_sizes. loaded: gets all weights of the checkpoint; null: nobody asks.  Source:
/// BertPreTrainedModel._init_weights after set_seed(seed), as run_glue calls them.
LoadReport initialize(Parameters& parameters, const AutoModel& model, uint64_t seed,
                      Checksum* loaded = nullptr);

/// config.json of the model as it is saved.
nlohmann::json saved_config(const AutoModel& model);

/// The files of a model folder other than the weights: config.json and the tokenizer's.
std::vector<NamedFile> model_files(const AutoModel& model);

}  // namespace lathe
