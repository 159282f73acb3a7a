#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "lathe/io/json_file.h"
#include "lathe/io/model_folder.h"
#include "lathe/io/safetensors.h"
#include "lathe/io/torch/torch_file.h"

namespace lathe {
namespace {

/// What open_checkpoint opens, best first.
constexpr std::array<std::string_view, 4> kWeightFiles = {
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"};

/// One file of weights, of either format.
class WeightFile {
 public:
  WeightFile(FileSystem& fs, std::string path) : path_(std::move(path)) {
    if (path_.ends_with(".safetensors")) {
      safetensors_ = std::make_unique<SafetensorsFile>(SafetensorsFile::open(fs, path_));
      names_ = safetensors_->names();
    } else {
      state_dict_ = std::make_unique<StateDict>(StateDict::open(fs, path_));
      for (const auto& [name, tensor] : state_dict_->tensors()) names_.push_back(name);
    }
  }

  const std::string& path() const { return path_; }
  const std::vector<std::string>& names() const { return names_; }
  const TensorView* find(std::string_view name) const {
    if (safetensors_ != nullptr) return safetensors_->find(name);
    const auto found = state_dict_->tensors().find(name);
    return found == state_dict_->tensors().end() ? nullptr : &found->second;
  }
  void release(std::string_view name) const {
    if (safetensors_ != nullptr)
      safetensors_->release(name);
    else if (const TensorView* tensor = find(name))
      state_dict_->release(*tensor);
  }

 private:
  std::string path_;
  std::vector<std::string> names_;
  std::unique_ptr<SafetensorsFile> safetensors_;  // one of the two
  std::unique_ptr<StateDict> state_dict_;
};

class FileCheckpoint : public Checkpoint {
 public:
  /// Takes every tensor of the file.
  void add(std::shared_ptr<const WeightFile> file) {
    for (const std::string& name : file->names()) add(name, file);
  }

  void add(const std::string& name, std::shared_ptr<const WeightFile> file) {
    if (files_.emplace(name, std::move(file)).second)
      names_.insert(std::upper_bound(names_.begin(), names_.end(), name), name);
  }

  const std::vector<std::string>& names() const override { return names_; }

  const TensorView* find(std::string_view name) const override {
    const auto found = files_.find(name);
    return found == files_.end() ? nullptr : found->second->find(name);
  }

  void release(std::string_view name) const override {
    const auto found = files_.find(name);
    if (found != files_.end()) found->second->release(name);
  }

  std::string file_of(std::string_view name) const override {
    const auto found = files_.find(name);
    return found == files_.end() ? "" : found->second->path();
  }

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::shared_ptr<const WeightFile>, std::less<>> files_;
};

std::unique_ptr<Checkpoint> open_single(FileSystem& fs, const std::string& path) {
  auto out = std::make_unique<FileCheckpoint>();
  out->add(std::make_shared<WeightFile>(fs, path));
  return out;
}

/// The shard files that an index names, opened.
std::map<std::string, std::shared_ptr<const WeightFile>> open_shards(FileSystem& fs,
                                                                     const nlohmann::json& weight_map,
                                                                     const std::string& index) {
  std::map<std::string, std::shared_ptr<const WeightFile>> shards;
  for (const auto& item : weight_map.items()) {
    const std::string shard = required<std::string>(weight_map, item.key(), index + ": weight_map");
    if (shards.contains(shard)) continue;
    const std::string path = join_path(parent_folder(index), shard);
    if (shard.find('/') != std::string::npos)
      fail(ErrorCode::kInvalidData,
           "{}: weight_map: found the file name \"{}\", expected one without a folder; fetch the whole model "
           "again",
           index, shard);
    if (!fs.exists(path))
      fail(ErrorCode::kNotFound,
           "{}: this shard is missing, but {} names it for tensor \"{}\"; fetch the whole model", path, index,
           item.key());
    shards[shard] = std::make_shared<WeightFile>(fs, path);
  }
  return shards;
}

std::unique_ptr<Checkpoint> open_sharded(FileSystem& fs, const std::string& index) {
  const nlohmann::json json = read_json(fs, index);
  const nlohmann::json weight_map = required<nlohmann::json>(json, "weight_map", index);
  if (!weight_map.is_object() || weight_map.empty())
    fail(ErrorCode::kInvalidData,
         "{}: \"weight_map\": expected an object of tensor names and file names; fetch the whole model again",
         index);
  const auto shards = open_shards(fs, weight_map, index);
  auto out = std::make_unique<FileCheckpoint>();
  for (const auto& item : weight_map.items()) {
    const auto& shard = shards.at(item.value().get<std::string>());
    const auto& names = shard->names();
    if (!std::binary_search(names.begin(), names.end(), item.key()))
      fail(ErrorCode::kInvalidData,
           "{}: tensor \"{}\" is missing, but {} names this file for it; fetch the whole model",
           shard->path(), item.key(), index);
    out->add(item.key(), shard);
  }
  return out;
}

}  // namespace

std::string weights_file(FileSystem& fs, const std::string& folder) {
  for (const std::string_view name : kWeightFiles)
    if (fs.exists(join_path(folder, name))) return std::string(name);
  return "";
}

bool is_weights_file(std::string_view name) {
  return std::ranges::find(kWeightFiles, name) != kWeightFiles.end();
}

std::unique_ptr<Checkpoint> open_checkpoint(FileSystem& fs, const std::string& folder) {
  if (const std::string name = weights_file(fs, folder); !name.empty()) {
    const std::string path = join_path(folder, name);
    return name.ends_with(".json") ? open_sharded(fs, path) : open_single(fs, path);
  }
  std::string others;
  for (const std::string_view name :
       {"tf_model.h5", "flax_model.msgpack", "model.ckpt.index", "adapter_model.safetensors"})
    if (fs.exists(join_path(folder, name)))
      others += fmt::format("{}{}", others.empty() ? "; found " : ", ", name);
  fail(ErrorCode::kNotFound,
       "{}: expected model.safetensors, model.safetensors.index.json, pytorch_model.bin or "
       "pytorch_model.bin.index.json{}{}",
       folder, others.empty() ? "; found none of them: copy or save the weights there, too" : others,
       others.empty() ? "" : ", which Lathe does not read: save the model as safetensors in Python");
}

}  // namespace lathe
