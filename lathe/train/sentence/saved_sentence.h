#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lathe/engine/parameters.h"
#include "lathe/io/file_system.h"
#include "lathe/io/model_folder.h"
#include "lathe/models/sentence/sentence_folder.h"
#include "lathe/train/auto_model.h"

namespace lathe {

/// Whether what is trained are vectors of texts: the model is saved as a folder of sentence-transformers.
bool gives_vectors(const AutoModel& model);

/// The modules of such a model: those of its folder, or the mean of the tokens.
SentenceFolder modules_of(const AutoModel& model);

/// The name of a parameter in the transformer's file, as transformers' class of the base has it; empty: a
/// file of its module holds it.
std::string name_in_transformer(const TaskModel& model, const std::string& parameter);

/// What the names of such tensors begin with.
inline constexpr const char* kUnusedByVectors = "pooler.";
/// Tensors of the transformer that no vector depends on, such as BERT's pooler: by their names in its file,
/// what the checkpoint holds of them.  They are saved as they were.
std::vector<std::pair<std::string, const TensorView*>> unused_tensors(const AutoModel& model);

/// Writes modules.json and the files of the modules, with the weights as they are now.
Status write_modules(FileSystem& fs, const std::string& folder, const AutoModel& model,
                     const Parameters& parameters);

/// The weights that a folder of the model has, those of its modules too.  Errors: as open_checkpoint and
/// read_sentence_folder.
std::unique_ptr<Checkpoint> open_saved(FileSystem& fs, const std::string& folder, const AutoModel& model);

}  // namespace lathe
