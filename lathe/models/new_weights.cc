#include "lathe/models/new_weights.h"

#include <cmath>
#include <string>

namespace lathe {
namespace {

/// PEFT makes A and B as layers of torch, which draw their weights, then draws A again.  The bound is that of
/// torch.nn.init.kaiming_uniform_(a=sqrt(5)), with its roundings.
void draw_low_rank(const nn::Parameter& p, TorchGenerator& generator, std::vector<float>& values) {
  for (int64_t i = 0; i < p.dropped; ++i) generator.next32();
  const double gain = std::sqrt(2.0 / (1 + std::pow(std::sqrt(5.0), 2)));
  const double bound = std::sqrt(3.0) * (gain / std::sqrt(static_cast<double>(p.shape[1])));
  values.resize(static_cast<size_t>(elements(p.shape)));
  generator.uniform(values);
  const auto most = static_cast<float>(bound);
  for (float& x : values) x = std::fma(x, most + most, -most);  // torch's kernels round once
}

double stddev_of(const nn::Parameter& p, const TaskModel& model) {
  return p.stddev > 0 ? p.stddev : model.initializer_range();
}

void draw_truncated(const nn::Parameter& p, const TaskModel& model, const ModelConfig& config,
                    TorchGenerator& generator, std::vector<float>& values) {
  const double stddev = stddev_of(p, model);
  values.resize(static_cast<size_t>(elements(p.shape)));
  generator.truncated_normal(values, static_cast<float>(stddev),
                             static_cast<float>(stddev * config.modern.initializer_cutoff_factor));
}

/// The draws of one run of transformers' from_config.
class Scratch {
 public:
  using Write = std::function<void(int index, std::span<const float> values)>;
  Scratch(const TaskModel& model, const ModelConfig& config, TorchGenerator& generator, const Write& write)
      : model_(model), config_(config), generator_(generator), write_(write) {
    const auto& all = model.parameters();
    for (size_t i = 0; i < all.size(); ++i)
      if (!all[i].of_adapter)
        (all[i].name.starts_with(model.base_prefix()) ? base_ : head_).push_back(static_cast<int>(i));
  }

  /// The base draws its weights when it is made, the head once both are there.
  void run() {
    const bool head_first = !head_.empty() && head_.front() < base_.front();
    if (head_first) construct_head();
    for (const int i : base_) construct(parameter(i));
    initialize(base_);
    if (!head_first) construct_head();
    initialize(head_);
  }

 private:
  const nn::Parameter& parameter(int index) const { return model_.parameters()[static_cast<size_t>(index)]; }

  void lose_uniform(int64_t count) {
    for (int64_t i = 0; i < count; ++i) generator_.next32();
  }
  void lose_normal(const Shape& shape) {
    values_.resize(static_cast<size_t>(elements(shape)));
    generator_.normal(values_);
  }

  /// What the constructor of a layer draws: nn.Linear uniform numbers, nn.Embedding normal ones.
  void construct(const nn::Parameter& p) {
    if (p.of_linear)
      lose_uniform(elements(p.shape));
    else if (p.shape.size() == 2)
      lose_normal(p.shape);
  }
  /// Its decoder, a layer of its own until it is tied, comes last.
  void construct_head() {
    for (const int i : head_) construct(parameter(i));
    const Shape& table = parameter(model_.find(model_.ties().front().source)).shape;
    lose_uniform(elements(table));
    if (config_.modern.decoder_bias) lose_uniform(table[0]);
  }

  /// ModernBERT's modules draw the weights of their layers anew after these have drawn them.
  void initialize(const std::vector<int>& parameters) {
    std::vector<int> of_module;  // truncated ones
    for (const int i : parameters) {
      const nn::Parameter& p = parameter(i);
      if (p.init != nn::Init::kTruncated) {
        draw_new(p, model_, config_, generator_, values_);  // norms draw nothing
        write_(i, values_);
        continue;
      }
      if (!of_module.empty() && module_of(parameter(of_module.front())) != module_of(p)) draw_all(of_module);
      of_module.push_back(i);
    }
    draw_all(of_module);
  }
  void draw_all(std::vector<int>& of_module) {
    for (const int i : of_module) lose_normal(parameter(i).shape);
    for (const int i : of_module) {
      draw_truncated(parameter(i), model_, config_, generator_, values_);
      write_(i, values_);
    }
    of_module.clear();
  }
  /// "model.layers.0.attn" of "model.layers.0.attn.Wqkv.weight"
  static std::string module_of(const nn::Parameter& p) {
    return p.name.substr(0, p.name.rfind('.', p.name.rfind('.') - 1));
  }

  const TaskModel& model_;
  const ModelConfig& config_;
  TorchGenerator& generator_;
  const Write& write_;
  std::vector<int> base_, head_;
  std::vector<float> values_;
};

}  // namespace

void draw_new(const nn::Parameter& p, const TaskModel& model, const ModelConfig& config,
              TorchGenerator& generator, std::vector<float>& values) {
  if (p.init == nn::Init::kLowRank) return draw_low_rank(p, generator, values);
  values.assign(static_cast<size_t>(elements(p.shape)), p.init == nn::Init::kOnes ? 1.0f : 0.0f);
  if (p.init != nn::Init::kNormal && p.init != nn::Init::kTruncated) return;
  generator.normal(values, 0, static_cast<float>(stddev_of(p, model)));
  if (p.init == nn::Init::kTruncated)  // transformers draws twice: as any linear layer, then as its own
    draw_truncated(p, model, config, generator, values);
  else
    nn::clear_padding(p, values);
}

void draw_from_scratch(const TaskModel& model, const ModelConfig& config, TorchGenerator& generator,
                       const std::function<void(int, std::span<const float>)>& write) {
  Scratch(model, config, generator, write).run();
}

}  // namespace lathe
