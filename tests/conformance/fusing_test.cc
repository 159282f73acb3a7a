// Fused programs compute what their parts do: on the reference device, which does not round between nodes, to
// the last bit.
#include <gtest/gtest.h>

#include "lathe/backends/cpu/cpu_backend.h"
#include "lathe/backends/ref/ref_backend.h"
#include "lathe/core/philox.h"
#include "lathe/engine/session.h"
#include "lathe/ops/ops.h"
#include "lathe/program/forwarding_backend_testing.h"
#include "lathe/program/fuse.h"
#include "lathe/program/memory_plan.h"
#include "lathe/train/auto_model.h"

namespace lathe::fusing_test {
namespace {

/// The reference device, with fused ops or without.
class Device : public ForwardingBackend {
 public:
  explicit Device(bool fused) : ForwardingBackend(make_ref_backend()), fused_(fused) {}
  std::vector<const Impl*> implementations(const OpDef& op) const override {
    if (op.fuses != nullptr && !fused_) return {};
    return real_->implementations(op);
  }

 private:
  bool fused_;
};

/// All outputs of a program whose inputs are `contents`.
std::vector<std::vector<double>> run(const Program& program,
                                     const std::vector<std::vector<std::byte>>& contents) {
  Device device(true);
  const Selection selection = select(program, device);
  auto executable = device.compile(program, selection, plan_memory(program, selection, 64), {}).value();
  Slot slot;
  for (const auto& content : contents) slot.inputs.emplace_back(content);
  Event event;
  executable->run(slot, &event).check();
  std::vector<std::vector<double>> outputs;
  for (size_t o = 0; o < program.outputs().size(); ++o) {
    const Type& type = program.type(program.outputs()[o].second);
    std::vector<std::byte> bytes(bytes_of(type));
    executable->read(event, o, bytes).check();
    outputs.push_back(load_doubles(type.dtype, bytes.data(), static_cast<size_t>(elements(type))));
  }
  return outputs;
}

TEST(Fusing, EveryFusedOpIsItsParts) {
  for (const Fusion& fusion : fusions())
    for (const Case& c : fusion.op->cases()) {
      Program program;
      std::vector<Value> in;
      std::vector<std::vector<std::byte>> contents;
      const std::vector<InputRule> rules = input_rules(*fusion.op);
      size_t ints = 0;
      for (uint32_t i = 0; i < rules.size(); ++i) {
        if (c.in[i] == Shape{-1}) {
          in.emplace_back();
          continue;
        }
        const Type type{rules[i].fixed_dtype ? rules[i].dtype : fusion.op->dtypes[0], c.in[i]};
        in.push_back(program.input(rules[i].name, type));
        std::vector<double> values;
        if (type.dtype == DType::i32)
          values.assign(c.ints[ints].begin(), c.ints[ints].end()), ++ints;
        else
          for (uint32_t k = 0; k < elements(type); ++k)
            values.push_back(c.scale * (philox({k, i, 0, 0}, 1, 2)[0] * 0x1p-31 - 1));
        contents.emplace_back(bytes_of(type));
        store_doubles(type.dtype, contents.back().data(), values);
      }
      for (const Value out : program.emit(*fusion.op, in, c.attrs))
        program.output(std::to_string(program.outputs().size()), out);
      const auto fused = run(program, contents);
      decompose(program, fusions());
      ASSERT_EQ(program.nodes().size(), fusion.parts.size());
      EXPECT_EQ(run(program, contents), fused) << fusion.op->name << " \"" << c.name << '"';
    }
}

AutoModel model(const std::string& type) {
  ModelConfig c;
  c.model_type = type;
  c.modern.local = {false, true, true}, c.modern.window = 8;
  c.vocab_size = 20, c.hidden_size = 16, c.num_hidden_layers = 3, c.num_attention_heads = 2;
  c.intermediate_size = 32, c.max_position_embeddings = 32;
  c.hidden_dropout_prob = 0.2, c.attention_probs_dropout_prob = 0.1, c.classifier_dropout = 0.1;
  return from_config(c, {single_label, {"a", "b"}}, std::nullopt);
}

PackedBatch batch() {
  PackedBatch b;
  b.rows = 2, b.tokens = 32, b.longest_row = 20;
  b.cu_seqlens = {0, 20, 32}, b.cls_index = {0, 20}, b.tensors.ints("labels") = {1, 0};
  for (int t = 0; t < b.tokens; ++t) {
    b.input_ids.push_back(7 * t % 20);
    b.position_ids.push_back(t < 20 ? t : t - 20);
    b.sample_ids.push_back(t < 20 ? 0 : 1);
    b.token_type_ids.push_back(t % 2);
  }
  return b;
}

struct Trained {
  std::vector<float> numbers;        ///< losses, logits, parameters
  std::map<std::string, int> nodes;  ///< of the step, by op
};

std::map<std::string, int> nodes_of(const Session::Pending& run) {
  std::map<std::string, int> nodes;
  for (const Node& node : run.compiled->program->nodes()) ++nodes[node.op->name];
  return nodes;
}

Trained train(const std::string& type, bool fused, DType dtype, int64_t every) {
  Device device(fused);
  AutoModel m = model(type);
  Session::Options options;
  options.program.dtype = dtype;
  options.program.recompute_every = every;
  Session session(device, *m.model, options);
  initialize(session.parameters(), m, 42);
  Trained trained;
  StepScalars scalars;
  scalars.learning_rate = 1e-2;
  for (int step = 1; step <= 2; ++step) {
    scalars.update_step = scalars.adam_step = step;
    const Session::Pending run = session.step(batch(), scalars);
    trained.numbers.push_back(session.collect(run).loss);
    if (step == 1) trained.nodes = nodes_of(run);
  }
  std::vector<float> logits;
  trained.numbers.push_back(session.evaluate(batch(), logits));
  for (const auto& more : {logits, session.parameters().read_state("parameters")})
    trained.numbers.insert(trained.numbers.end(), more.begin(), more.end());
  return trained;
}

TEST(Fusing, ATrainingStepOfBertIsThatOfItsParts) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int64_t every : {0, 1, 2}) {
      Trained plain = train("bert", false, dtype, every), fused = train("bert", true, dtype, every);
      EXPECT_EQ(fused.numbers, plain.numbers) << name_of(dtype) << " every " << every;
      // Three layers of two residual blocks, and the embeddings; what is left has no part next to it.
      for (const char* op : {"layer_norm", "gelu"}) EXPECT_EQ(fused.nodes[op], 0) << op;
      EXPECT_EQ(fused.nodes["add"], 0);
      EXPECT_EQ(fused.nodes["layer_norm_dropout_bwd"], 6);
      EXPECT_EQ(fused.nodes["layer_norm_bwd"], 1);
      EXPECT_EQ(fused.nodes["linear_bwd_input_add"], 6);
      const bool rounds = dtype == DType::bf16;
      EXPECT_EQ(fused.nodes["embed_layer_norm"], rounds ? 0 : 1);
      EXPECT_EQ(fused.nodes["embed_layer_norm_dropout"], rounds ? 1 : 0);
      EXPECT_EQ(fused.nodes["dropout_cast"], rounds ? 1 : 0);
      EXPECT_EQ(fused.nodes["dropout_add_layer_norm"], plain.nodes["layer_norm"] - 1);
      EXPECT_EQ(fused.nodes["linear_gelu"], plain.nodes["gelu"]);
    }
}

TEST(Fusing, ATrainingStepOfModernBertIsThatOfItsParts) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int64_t every : {0, 1, 2}) {
      Trained plain = train("modernbert", false, dtype, every),
              fused = train("modernbert", true, dtype, every);
      EXPECT_EQ(fused.numbers, plain.numbers) << name_of(dtype) << " every " << every;
      // Each of the six blocks has a sum; the first one's input is not normalised in front of it.
      EXPECT_EQ(fused.nodes["layer_norm_bwd_add"], 5);
      EXPECT_EQ(fused.nodes["linear_bwd_input_add"], 1);
      // Recomputed, a layer's last sum and the next one's normalisation lie in different segments.
      EXPECT_EQ(fused.nodes["add"], every == 0 ? 0 : 3);
    }
}

/// The ops of a step of bf16 on the CPU.
std::map<std::string, int> nodes_on_cpu(const std::string& type) {
  const auto device = cpu::make_cpu_backend(1);
  AutoModel m = model(type);
  Session::Options options;
  options.program.dtype = DType::bf16;
  Session session(*device, *m.model, options);
  initialize(session.parameters(), m, 42);
  StepScalars scalars;
  scalars.learning_rate = 1e-2;
  scalars.update_step = scalars.adam_step = 1;
  const Session::Pending run = session.step(batch(), scalars);
  session.collect(run);
  return nodes_of(run);
}

TEST(Fusing, TheCpuHasTheFusedOpsOfItsSteps) {
  std::map<std::string, int> bert = nodes_on_cpu("bert"), modern = nodes_on_cpu("modernbert");
  EXPECT_EQ(bert["dropout_add_layer_norm"], 6);
  EXPECT_EQ(bert["layer_norm_dropout_bwd"], 6);
  EXPECT_EQ(bert["linear_bwd_input_add"], 6);
  EXPECT_EQ(bert["embed_layer_norm"], 1);
  EXPECT_EQ(bert["add"], 0);
  for (auto* nodes : {&bert, &modern}) {
    EXPECT_GT((*nodes)["linear_bwd_weight_cast"], 0);
    EXPECT_EQ((*nodes)["linear_bwd_weight"], 0);
  }
  EXPECT_EQ(modern["layer_norm_bwd_add"], 5);
  for (const char* op : {"add_layer_norm", "dropout_add_layer_norm"}) EXPECT_EQ(modern[op], 3) << op;
  EXPECT_EQ(modern["add"], 0);
}

}  // namespace
}  // namespace lathe::fusing_test
