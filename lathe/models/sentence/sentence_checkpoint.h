#pragma once
#include <memory>
#include <string>

#include "lathe/io/model_folder.h"
#include "lathe/models/sentence/sentence_folder.h"

namespace lathe {

/// The layer of a step of a folder, as sentence-transformers names its folder: "2_Dense.linear".
std::string dense_layer(size_t step);

/// The weights of a transformer, and those of the folder's Dense modules under their layers' names.
std::unique_ptr<Checkpoint> with_dense_weights(std::unique_ptr<Checkpoint> transformer,
                                               std::shared_ptr<const SentenceFolder> folder,
                                               const std::string& path);

}  // namespace lathe
