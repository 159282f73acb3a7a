#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/io/file_system.h"
#include "lathe/io/tensor_view.h"

namespace lathe {

/// The files that a tokenizer is read from: tokenizer.json or vocab.txt, and what says more of it.
inline constexpr std::array<const char*, 5> kTokenizerFiles = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt"};

/// The files of an adapter's folder, as PEFT names them.
inline constexpr const char *kAdapterConfigFile = "adapter_config.json",
                            *kAdapterFile = "adapter_model.safetensors";

/// The folders of a model that is named by folder or by Hub name ("bert-base-cased",
/// "google-bert/bert-base-cased": both forms find either).  A folder that exists is the only one; else those
/// in the local Hugging Face cache (hub_cache.h) with the commit from refs/<revision>, or `revision` itself,
/// the name's own form first.  looked_at says where there was none.  Errors: kNotFound for what can be no
/// name, kUsage.
std::vector<std::string> find_models(FileSystem& fs, const std::string& name_or_path,
                                     const std::string& revision, const std::string& cache_dir,
                                     std::vector<std::string>& looked_at);

/// The weights of a model folder under one set of names, whichever files hold them.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;
  /// Sorted.
  virtual const std::vector<std::string>& names() const = 0;
  /// Valid while the Checkpoint lives; null if there is none of that name.  Throws kUnsupported for a dtype
  /// that Lathe does not compute with.
  virtual const TensorView* find(std::string_view name) const = 0;
  /// The tensor was read and is not wanted soon: what the file is mapped to need not stay in memory.
  virtual void release(std::string_view) const {}
  /// The file that holds the tensor, for messages; empty if there is none.
  virtual std::string file_of(std::string_view name) const = 0;
};

/// The name of the file that open_checkpoint opens, be it whole or damaged; empty if there is none.
std::string weights_file(FileSystem& fs, const std::string& folder);
inline bool has_weights(FileSystem& fs, const std::string& folder) {
  return !weights_file(fs, folder).empty();
}
/// Whether the name is one of theirs.
bool is_weights_file(std::string_view name);

/// Opens, in this order, model.safetensors, model.safetensors.index.json with its shards, pytorch_model.bin,
/// pytorch_model.bin.index.json with its shards.  Throws kNotFound when there is none of them (naming the
/// weights of other frameworks that are there), kInvalidData when a file is damaged, a shard is missing or a
/// tensor is not in the shard that the index names.
std::unique_ptr<Checkpoint> open_checkpoint(FileSystem& fs, const std::string& folder);

}  // namespace lathe
