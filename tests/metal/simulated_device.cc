#include "tests/metal/simulated_device.h"

#include <mlx/export.h>

#include <algorithm>
#include <cstring>

namespace lathe::metal {
namespace {

namespace mx = ::mlx::core;

/// A tensor with guards before and after it: NaN, which shows that it was read there, but other bytes while
/// it is written, for NaN over NaN would not show.
class Guarded {
 public:
  explicit Guarded(std::span<const std::byte> content)
      : bytes_(content.size()), memory_(content.size() + 2 * kGuard, kNan) {
    std::memcpy(data(), content.data(), content.size());
  }
  /// To be written.
  explicit Guarded(size_t bytes) : Guarded(std::vector(bytes, kNan)) { set_guards(kUnwritten); }
  /// It was written.  Returns whether the guards are as they were.
  bool close() {
    const bool whole = std::all_of(memory_.begin(), memory_.begin() + kGuard, is_unwritten) &&
                       std::all_of(memory_.end() - kGuard, memory_.end(), is_unwritten);
    set_guards(kNan);
    return whole;
  }
  std::byte* data() { return memory_.data() + kGuard; }
  size_t size() const { return bytes_; }
  bool operator==(const Guarded& other) const { return memory_ == other.memory_; }

 private:
  static constexpr size_t kGuard = 4096;
  static constexpr std::byte kNan{0xFF};  // in every float type; −1 as an index
  static constexpr std::byte kUnwritten{0xA5};
  static bool is_unwritten(std::byte b) { return b == kUnwritten; }
  void set_guards(std::byte value) {
    std::fill(memory_.begin(), memory_.begin() + kGuard, value);
    std::fill(memory_.end() - kGuard, memory_.end(), value);
  }
  size_t bytes_;
  std::vector<std::byte> memory_;
};

using Tensors = std::map<std::string, Guarded>;
using Named = std::vector<std::tuple<std::string, mx::Shape, mx::Dtype>>;

/// The graph of one node, as MLX exports it.
struct Graph {
  struct Kernel {
    KernelLaunch launch;
    Named in, out;
  };
  std::vector<std::string> inputs, outputs;
  std::vector<std::pair<std::string, mx::array>> constants;
  std::vector<Kernel> kernels;
};

uint32_t first_of(const mx::StateT& state) {
  if (const auto* v = std::get_if<std::vector<int>>(&state)) return static_cast<uint32_t>(v->at(0));
  if (const auto* v = std::get_if<mx::Shape>(&state)) return static_cast<uint32_t>(v->at(0));
  if (const auto* v = std::get_if<int>(&state)) return static_cast<uint32_t>(*v);
  fail(ErrorCode::kInternal, "MLX exports sizes of a grid in another form");
}

void take(Graph& graph, const mx::ExportCallbackInput& part) {
  const auto& type = std::get<std::string>(part.at("type"));
  const auto names = [&](const char* key, std::vector<std::string>& into) {
    for (const auto& [name, shape, dtype] : std::get<Named>(part.at(key))) into.push_back(name);
  };
  if (type == "inputs") names("inputs", graph.inputs);
  if (type == "outputs") names("outputs", graph.outputs);
  if (type == "constants")
    graph.constants = std::get<std::vector<std::pair<std::string, mx::array>>>(part.at("constants"));
  if (type != "primitive") return;
  const auto& name = std::get<std::string>(part.at("name"));
  if (name != "CustomKernel") fail(ErrorCode::kInternal, "{} next to kernels: the simulator has none", name);
  const auto& state = std::get<std::vector<mx::StateT>>(part.at("arguments"));
  KernelLaunch launch{std::get<std::string>(state.at(0)), std::get<std::string>(state.at(1)), 0, 0};
  const size_t last_of_grid = std::holds_alternative<int>(state.at(2)) ? 5 : 3;
  launch.threads = first_of(state.at(last_of_grid));
  launch.groups = first_of(state.at(2)) / launch.threads;
  graph.kernels.push_back({launch, std::get<Named>(part.at("inputs")), std::get<Named>(part.at("outputs"))});
}

size_t bytes_of(const mx::Shape& shape, mx::Dtype dtype) {
  size_t bytes = dtype.size();
  for (const int n : shape) bytes *= static_cast<size_t>(n);
  return bytes;
}

struct Simulated {
  Simulate simulate;
  int order;
  std::function<void(const KernelLaunch&)> on_launch;
};

void run_kernel(const Simulated& how, const Graph::Kernel& kernel, Tensors& tensors) {
  if (how.on_launch) how.on_launch(kernel.launch);
  std::vector<void*> arguments;
  std::vector<std::pair<std::string, Guarded>> before;
  for (const auto& [name, shape, dtype] : kernel.in) {
    before.emplace_back(name, tensors.at(name));
    arguments.push_back(tensors.at(name).data());
  }
  for (const auto& [name, shape, dtype] : kernel.out)
    arguments.push_back(tensors.insert_or_assign(name, Guarded(bytes_of(shape, dtype))).first->second.data());
  if (how.simulate == nullptr) return;  // after which nothing is compared
  const KernelLaunch& launch = kernel.launch;
  if (const char* failure =
          how.simulate(launch.name.c_str(), arguments.data(), launch.groups, launch.threads, how.order))
    fail(ErrorCode::kInternal, "{}: {}", launch.name, failure);
  for (const auto& [name, content] : before)
    if (tensors.at(name) != content) fail(ErrorCode::kInternal, "{} changed its input", launch.name);
  for (const auto& [name, shape, dtype] : kernel.out)
    if (!tensors.at(name).close()) fail(ErrorCode::kInternal, "{} wrote beyond an output", launch.name);
}

class SimulatedExecutable : public Executable {
 public:
  SimulatedExecutable(const Simulated& how, const Program& program, const mlx::MlxImpl& impl)
      : how_(how), program_(program), impl_(impl) {}

  Status run(const Slot& slot, Event* event) override {
    try {
      const Node& node = program_.nodes()[0];
      mlx::Arrays inputs;
      std::vector<size_t> places;  // of the inputs that are given
      for (size_t i = 0; i < node.in.size(); ++i)
        if (node.in[i] >= 0) places.push_back(i);
      for (size_t k = 0; k < places.size(); ++k) {
        const Type& type = program_.type(node.in[places[k]]);
        inputs.push_back(mlx::array_of(slot.inputs[k], mlx::shape_of(type.shape), mlx::dtype_of(type.dtype)));
      }
      const Graph graph = trace(inputs, places);
      Tensors tensors;
      for (size_t k = 0; k < inputs.size(); ++k) tensors.emplace(graph.inputs[k], Guarded(slot.inputs[k]));
      for (auto [name, array] : graph.constants) {
        array.eval();
        tensors.emplace(name, Guarded(std::span(array.data<std::byte>(), array.nbytes())));
      }
      for (const Graph::Kernel& kernel : graph.kernels) run_kernel(how_, kernel, tensors);
      outputs_.clear();
      for (const std::string& name : graph.outputs) outputs_.push_back(tensors.at(name));
      *event = {1};
      return {};
    } catch (const Error& error) {
      return {error.code(), error.what()};
    } catch (const std::exception& error) {
      return {ErrorCode::kInternal, error.what()};
    }
  }
  Status wait(Event) override { return {}; }
  Status read(Event, size_t index, std::span<std::byte> destination) override {
    if (destination.size() != outputs_.at(index).size())
      return {ErrorCode::kInternal, fmt::format("output {} is of {} bytes", index, outputs_[index].size())};
    std::memcpy(destination.data(), outputs_[index].data(), destination.size());
    return {};
  }
  void profile(bool) override {}
  std::vector<Span> timeline() const override { return {}; }

 private:
  Graph trace(const mlx::Arrays& inputs, const std::vector<size_t>& places) {
    Graph graph;
    const Node& node = program_.nodes()[0];
    const auto lower = [&](const mlx::Arrays& arrays) {
      mlx::Constants constants;
      mlx::Shared shared;
      mlx::Call call{node, program_, {}, 0, constants, shared, nullptr};
      call.in.resize(node.in.size());
      for (size_t k = 0; k < places.size(); ++k) call.in[places[k]] = arrays[k];
      return impl_.lower(call);
    };
    mx::export_function([&](const mx::ExportCallbackInput& part) { take(graph, part); },
                        std::function<mlx::Arrays(const mlx::Arrays&)>(lower), inputs);
    return graph;
  }

  const Simulated& how_;
  const Program& program_;
  const mlx::MlxImpl& impl_;
  std::vector<Guarded> outputs_;
};

struct KernelImpl : mlx::MlxImpl {
  mlx::Arrays (*function)(const mlx::Call&) = nullptr;
  mlx::Arrays lower(const mlx::Call& call) const override { return function(call); }
};

class SimulatedDevice : public Backend {
 public:
  explicit SimulatedDevice(Simulated how) : how_(std::move(how)) {
    info_.kind = "metal";
    info_.name = "own Metal kernels, simulated";
    info_.caller_memory = false;
    for (const mlx::OwnKernel& kernel : mlx::own_kernels()) {
      auto impl = std::make_unique<KernelImpl>();
      impl->name = kernel.entry.name;
      impl->function = kernel.entry.lower;
      if (kernel.entry.accepts != nullptr) impl->accepts = kernel.entry.accepts;
      table_[kernel.entry.op->name] = std::move(impl);
    }
  }
  const DeviceInfo& info() const override { return info_; }
  Result<Buffer> allocate(size_t bytes) override {
    const auto memory = std::make_shared<std::vector<std::byte>>(bytes);
    return Buffer{memory, memory->data(), bytes};
  }
  Status copy_in(const Buffer& to, size_t offset, std::span<const std::byte> from) override {
    std::memcpy(to.data + offset, from.data(), from.size());
    return {};
  }
  Status copy_out(std::span<std::byte> to, const Buffer& from, size_t offset) override {
    std::memcpy(to.data(), from.data + offset, to.size());
    return {};
  }
  std::vector<const Impl*> implementations(const OpDef& op) const override {
    const auto found = table_.find(op.name);
    return found == table_.end() ? std::vector<const Impl*>{} : std::vector<const Impl*>{found->second.get()};
  }
  Result<std::unique_ptr<Executable>> compile(const Program& program, const Selection& selection,
                                              const MemoryPlan&, const Bindings&) override {
    return std::unique_ptr<Executable>(std::make_unique<SimulatedExecutable>(
        how_, program, *static_cast<const mlx::MlxImpl*>(selection.at(0))));
  }

 private:
  Simulated how_;
  DeviceInfo info_;
  std::map<std::string, std::unique_ptr<KernelImpl>> table_;
};

}  // namespace

std::unique_ptr<Backend> make_simulated_device(Simulate simulate, int order,
                                               std::function<void(const KernelLaunch&)> on_launch) {
  return std::make_unique<SimulatedDevice>(Simulated{simulate, order, std::move(on_launch)});
}

}  // namespace lathe::metal
