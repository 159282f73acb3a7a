#include "lathe/models/sentence/sentence_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace lathe {
namespace {

class WithDense : public Checkpoint {
 public:
  WithDense(std::unique_ptr<Checkpoint> transformer, std::shared_ptr<const SentenceFolder> folder,
            std::string path)
      : transformer_(std::move(transformer)), folder_(std::move(folder)), path_(std::move(path)) {
    names_ = transformer_->names();
    for (size_t step = 0; step < folder_->steps.size(); ++step) {
      const auto& dense = folder_->steps[step].dense;
      if (!dense) continue;
      add(dense_layer(step) + ".weight", {dense->out, dense->in}, dense->weight);
      if (!dense->bias.empty()) add(dense_layer(step) + ".bias", {dense->out}, dense->bias);
    }
    std::sort(names_.begin(), names_.end());
  }
  const std::vector<std::string>& names() const override { return names_; }
  const TensorView* find(std::string_view name) const override {
    const auto own = own_.find(name);
    return own != own_.end() ? &own->second : transformer_->find(name);
  }
  void release(std::string_view name) const override { transformer_->release(name); }
  std::string file_of(std::string_view name) const override {
    return own_.contains(name) ? path_ : transformer_->file_of(name);
  }

 private:
  void add(const std::string& name, Shape shape, const std::vector<float>& values) {
    own_[name] = {DType::f32, std::move(shape), std::as_bytes(std::span(values))};
    names_.push_back(name);
  }

  std::unique_ptr<Checkpoint> transformer_;
  std::shared_ptr<const SentenceFolder> folder_;
  std::string path_;
  std::vector<std::string> names_;
  std::map<std::string, TensorView, std::less<>> own_;
};

}  // namespace

std::string dense_layer(size_t step) { return fmt::format("{}_Dense.linear", step + 2); }

std::unique_ptr<Checkpoint> with_dense_weights(std::unique_ptr<Checkpoint> transformer,
                                               std::shared_ptr<const SentenceFolder> folder,
                                               const std::string& path) {
  return std::make_unique<WithDense>(std::move(transformer), std::move(folder), path);
}

}  // namespace lathe
