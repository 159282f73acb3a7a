#include "lathe/backends/mlx/host_node.h"

#include <mlx/backend/cpu/encoder.h>
#include <mlx/primitives.h>

namespace lathe::mlx {
namespace {

/// A program of one node on the host's device.  All operands are its inputs: what the node updates in place
/// is a copy, and the result an output.
class OneNode {
 public:
  OneNode(const Call& call, Backend& host) {
    std::vector<Value> in;
    for (size_t i = 0; i < call.in.size(); ++i)
      in.push_back(call.in[i] ? program_.input("in" + std::to_string(i), call.in_type(static_cast<int>(i)))
                              : Value{});
    const std::vector<Value> out = program_.emit(*call.node.op, in, call.node.attrs);
    for (size_t o = 0; o < out.size(); ++o) program_.output("out" + std::to_string(o), out[o]);
    const Selection selection = select(program_, host);
    const MemoryPlan plan = plan_memory(program_, selection, host.info().alignment);
    Bindings bindings;
    bindings.arena = host.allocate(plan.arena_bytes, Memory::kDevice).value();
    executable_ = host.compile(program_, selection, plan, bindings).value();
  }

  void run(const std::vector<std::span<const std::byte>>& in, const std::vector<std::span<std::byte>>& out) {
    Event event;
    executable_->run({in}, &event).check();
    for (size_t o = 0; o < out.size(); ++o) executable_->read(event, o, out[o]).check();
  }

 private:
  Program program_;
  std::unique_ptr<Executable> executable_;
};

/// That program as an operation of MLX on one of its CPU streams.
class HostPrimitive : public mx::Primitive {
 public:
  HostPrimitive(mx::Stream stream, std::shared_ptr<OneNode> node)
      : Primitive(stream), node_(std::move(node)) {}

  void eval_cpu(const Arrays& inputs, Arrays& outputs) override {
    std::vector<std::span<const std::byte>> in;
    std::vector<std::span<std::byte>> out;
    for (const mx::array& x : inputs) in.emplace_back(x.data<std::byte>(), x.nbytes());
    for (mx::array& x : outputs) {
      x.set_data(mx::allocator::malloc(x.nbytes()));
      out.emplace_back(x.data<std::byte>(), x.nbytes());
    }
    // MLX keeps the arrays until what is dispatched has run.
    mx::cpu::get_command_encoder(stream()).dispatch([node = node_, in, out] { node->run(in, out); });
  }
  void eval_gpu(const Arrays&, Arrays&) override {
    fail(ErrorCode::kInternal, "mlx: a host node on a GPU stream");
  }
  const char* name() const override { return "LatheHostNode"; }

 private:
  std::shared_ptr<OneNode> node_;
};

struct HostImpl : MlxImpl {
  std::shared_ptr<Backend> host;
  mx::Stream stream;
  explicit HostImpl(mx::Stream s) : stream(s) {}

  Arrays lower(const Call& call) const override {
    Arrays in;
    for (const auto& x : call.in)
      if (x) in.push_back(mx::contiguous(*x, false, stream));
    std::vector<mx::Shape> shapes;
    std::vector<mx::Dtype> dtypes;
    for (size_t o = 0; o < call.node.out.size(); ++o) {
      shapes.push_back(shape_of(call.out_type(static_cast<int>(o)).shape));
      dtypes.push_back(dtype_of(call.out_type(static_cast<int>(o)).dtype));
    }
    const auto node = std::make_shared<OneNode>(call, *host);
    return mx::array::make_arrays(shapes, dtypes, std::make_shared<HostPrimitive>(stream, node), in);
  }
};

}  // namespace

std::unique_ptr<MlxImpl> host_impl(std::shared_ptr<Backend> host, mx::Stream stream) {
  auto impl = std::make_unique<HostImpl>(stream);
  impl->name = host->info().kind;
  impl->on_host = true;
  impl->accepts = [host](const Node& node, const Program& program) {
    for (const Impl* theirs : host->implementations(*node.op))
      if (!theirs->accepts || theirs->accepts(node, program)) return true;
    return false;
  };
  impl->host = std::move(host);
  return impl;
}

}  // namespace lathe::mlx
