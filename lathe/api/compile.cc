#include "lathe/api/compile.h"

#include <cmath>

#include "lathe/data/torch_random.h"
#include "lathe/ops/elementwise.h"
#include "lathe/ops/ops.h"
#include "lathe/program/autograd.h"
#include "lathe/program/fuse.h"

namespace lathe {
namespace {

constexpr const char* kInput = "input";  // a state: it stays on the device from run to run
constexpr const char* kLoss = "loss";
constexpr const char* kGradient = "gradient of ";

void trace_step(Program& program, nn::Module& module, const std::function<Value(Value)>& loss_of,
                const Type& input, bool backward) {
  nn::Trace trace;
  std::vector<Value> trainable;
  for (const nn::Block& block : module.blocks()) {
    const nn::Parameter& p = module.first_of(block);
    trace.blocks.push_back(program.state(p.name, {DType::f32, block.shape}));
    if (p.trainable) trainable.push_back(trace.blocks.back());
  }
  const nn::TraceScope scope(module, trace);
  const Value loss = loss_of(program.state(kInput, input));
  if (!loss || loss.type() != Type{DType::f32, {1}})
    fail(ErrorCode::kShape, "compile: the loss is {}, expected f32[1]; take its mean",
         loss ? to_string(loss.type()) : "no value");
  program.output(kLoss, loss);
  if (backward && !trainable.empty()) {
    const Value one = program.input("loss_weight", {DType::f32, {1}});
    const std::vector<Value> grads = gradients(loss, one, trainable, op::add);
    for (size_t i = 0; i < grads.size(); ++i)
      program.output(kGradient + program.values()[static_cast<size_t>(trainable[i].id)].name, grads[i], true);
  }
  program.remove_dead_nodes();
}

/// Source: torch.nn.Linear.reset_parameters: kaiming_uniform_(a=√5) is uniform in ±1/√in, and so is the bias.
void initialize(Compiled& compiled, const nn::Module& module, uint64_t seed) {
  constexpr float kMost = 2;  // of kTruncated, in standard deviations
  TorchGenerator generator(seed);
  float bound = 0;  // of the numbers of a linear layer; 0: it was told how to start
  for (const nn::Parameter& p : module.parameters()) {
    std::vector<float> values(static_cast<size_t>(elements(p.shape)),
                              p.init == nn::Init::kOnes ? 1.0f : 0.0f);
    const float stddev = p.stddev > 0 ? static_cast<float>(p.stddev) : 1;
    if (p.of_linear && p.shape.size() == 2) {  // its bias comes after it
      const bool told = p.init != nn::Init::kNormal || p.stddev != 0;
      bound = told ? 0 : static_cast<float>(1 / std::sqrt(static_cast<double>(p.shape.back())));
    }
    if (p.of_linear && bound > 0) {
      generator.uniform(values, -bound, bound);
    } else if (p.init == nn::Init::kNormal) {
      generator.normal(values, 0, stddev);
      nn::clear_padding(p, values);
    } else if (p.init == nn::Init::kTruncated) {
      generator.truncated_normal(values, stddev, kMost * stddev);
    }
    compiled.set_parameter(p.name, values);
  }
}

}  // namespace

Compiled compile(Backend& backend, nn::Module& module, const std::function<Value(Value)>& loss,
                 const Type& input, const CompileOptions& options) {
  if (input.dtype != DType::f32)
    fail(ErrorCode::kShape, "compile: the input is {}, expected f32", to_string(input));
  Compiled compiled;
  compiled.backend_ = &backend;
  compiled.program_ = std::make_unique<Program>();
  const Program& program = *compiled.program_;
  trace_step(*compiled.program_, module, loss, input, options.backward);
  for (const nn::Block& block : module.blocks()) {
    const std::string& state = module.first_of(block).name;
    int64_t offset = 0;
    for (int index : block.parameters) {
      const nn::Parameter& p = module.parameters()[static_cast<size_t>(index)];
      compiled.places_[p.name] = {state, offset, elements(p.shape)};
      offset += elements(p.shape);
    }
    compiled.bindings_.states[state] = backend.allocate(bytes_of({DType::f32, block.shape})).value();
  }
  compiled.bindings_.states[kInput] = backend.allocate(bytes_of(input)).value();
  fuse(*compiled.program_, backend, fusions());
  const Selection selection = select(program, backend);
  const MemoryPlan plan = backend.plan(program, selection);
  if (backend.info().caller_memory) compiled.bindings_.arena = backend.allocate(plan.arena_bytes).value();
  compiled.executable_ = backend.compile(program, selection, plan, compiled.bindings_).value();
  initialize(compiled, module, options.seed);
  return compiled;
}

float Compiled::run(std::span<const float> input) {
  const Type& wanted = program_->type(program_->find(kInput));
  if (static_cast<int64_t>(input.size()) != elements(wanted))
    fail(ErrorCode::kShape, "run: {} values given, expected {}", input.size(), to_string(wanted));
  backend_->copy_in(bindings_.states.at(kInput), 0, std::as_bytes(input)).check();
  has_input_ = true;
  return run();
}

float Compiled::run() {
  if (!has_input_) fail(ErrorCode::kUsage, "run: the first run needs an input");
  constexpr float kOne = 1;
  Slot slot;
  if (program_->find("loss_weight") >= 0) slot.inputs.push_back(std::as_bytes(std::span(&kOne, 1)));
  executable_->run(slot, &last_).check();
  float loss = 0;
  executable_->read(last_, 0, std::as_writable_bytes(std::span(&loss, 1))).check();
  ran_ = true;
  return loss;
}

std::vector<float> Compiled::gradient(const std::string& name) const {
  if (!ran_) fail(ErrorCode::kUsage, "gradient of {}: call run first", name);
  const auto& outputs = program_->outputs();
  const auto known = places_.find(name);
  for (size_t i = 0; known != places_.end() && i < outputs.size(); ++i) {
    const Place& at = known->second;
    if (outputs[i].first != kGradient + at.state) continue;
    std::vector<float> block(static_cast<size_t>(elements(program_->type(outputs[i].second))));
    executable_->read(last_, i, std::as_writable_bytes(std::span(block))).check();
    return {block.begin() + at.offset, block.begin() + at.offset + at.elements};
  }
  fail(ErrorCode::kUsage,
       "{} has no gradient: it is no trainable parameter, or the step was compiled without backward", name);
}

const Compiled::Place& Compiled::place(const std::string& name) const {
  const auto at = places_.find(name);
  if (at == places_.end()) fail(ErrorCode::kUsage, "the module has no parameter {}", name);
  return at->second;
}

std::vector<float> Compiled::parameter(const std::string& name) const {
  const Place& at = place(name);
  std::vector<float> values(static_cast<size_t>(at.elements));
  backend_
      ->copy_out(std::as_writable_bytes(std::span(values)), bindings_.states.at(at.state),
                 static_cast<size_t>(at.offset) * sizeof(float))
      .check();
  return values;
}

void Compiled::set_parameter(const std::string& name, std::span<const float> values) {
  const Place& at = place(name);
  if (static_cast<int64_t>(values.size()) != at.elements)
    fail(ErrorCode::kShape, "parameter {}: {} values given, expected {}", name, values.size(), at.elements);
  backend_
      ->copy_in(bindings_.states.at(at.state), static_cast<size_t>(at.offset) * sizeof(float),
                std::as_bytes(values))
      .check();
}

}  // namespace lathe
