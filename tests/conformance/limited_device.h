#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lathe/backends/register.h"
#include "lathe/program/forwarding_backend_testing.h"
#include "lathe/train/auto_model.h"

namespace lathe {

/// A device with as much memory as the test says.
class Limited : public ForwardingBackend {
 public:
  explicit Limited(std::shared_ptr<ProcessGroup> group = nullptr)
      : ForwardingBackend(open_device("cpu", {.threads = 2, .group = std::move(group)})) {}
  std::optional<size_t> free;
  size_t allocated = 0;

  Result<Buffer> allocate(size_t bytes) override {
    allocated += bytes;
    return real_->allocate(bytes);
  }
  std::optional<size_t> free_bytes() const override { return free; }
  const DeviceInfo& info() const override { return info_; }
  size_t prepared_bytes(const Program& program, const Selection& selection,
                        const Bindings& bindings) const override {
    longest_row = program.longest_row();
    return real_->prepared_bytes(program, selection, bindings);
  }

  mutable int64_t longest_row = -1;  // of the last program that was planned
  void have_own_memory() { info_.host_memory = false; }
  void hold_activations() { info_.caller_memory = false; }

 private:
  DeviceInfo info_ = real_->info();
};

/// Three layers of 32 columns, a vocabulary of 40, rows of 32 tokens; no dropout.
inline AutoModel model(const std::string& type = "bert", int64_t types = 2,
                       const HeadOptions& head = {single_label, {"a", "b"}}) {
  ModelConfig c;
  c.model_type = type, c.type_vocab_size = types;
  c.vocab_size = 40, c.hidden_size = 32, c.num_hidden_layers = 3, c.num_attention_heads = 4;
  c.intermediate_size = 128, c.max_position_embeddings = 32;
  c.hidden_dropout_prob = c.attention_probs_dropout_prob = c.classifier_dropout = 0;
  return from_config(c, head, std::nullopt);
}

/// Names three other ranks that do not exist: every call to them fails.
class FourRanks : public ProcessGroup {
 public:
  int rank() const override { return 1; }
  int size() const override { return 4; }
  int local_rank() const override { return 1; }
  Status sum(std::span<float>, DType) override { return kNobody; }
  Status broadcast(std::span<std::byte>, int) override { return kNobody; }
  Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte>) override {
    return kNobody;
  }
  Status gather_parts(std::span<float>, std::span<const int64_t>) override { return kNobody; }
  Status barrier() override { return kNobody; }
  std::optional<int> gone() const override { return 0; }

 private:
  static inline const Status kNobody{ErrorCode::kIo, "nobody is there"};
};

}  // namespace lathe
