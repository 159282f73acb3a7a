#include "lathe/backends/mlx/host_node.h"

#include <mlx/backend/cpu/encoder.h>
#include <mlx/primitives.h>

#include <cstring>
#include <memory>

namespace lathe::mlx {
namespace {

/// The implementation that the host takes for a node; null if there is none.
const Impl* implementation(const Backend& host, const Node& node, const Program& program) {
  if (node.op->aliasing != Aliasing::kNone) return nullptr;  // views, which run nowhere
  for (const Impl* impl : host.implementations(*node.op))
    if (!impl->accepts || impl->accepts(node, program)) return impl;
  return nullptr;
}

/// What a node that updates works on in addition to states: a new array for each state, gradients in parts
/// and as one and, for an optimizer, which has several states, the squares of the norm.
size_t update_bytes(const Node& node, const Program& program) {
  if (node.op->in_place.empty()) return 0;
  size_t bytes = bytes_of(program.type(node.in[0])) * (node.op->in_place.size() > 1 ? 3 : 2);
  for (const InPlace& update : node.op->in_place)
    bytes += bytes_of(program.type(node.out[static_cast<size_t>(update.out)]));
  return bytes;
}

/// A node of a program on the host.
class HostNode {
 public:
  HostNode(const Call& call, Backend& host) : host_(host) {
    std::vector<Value> in;
    for (size_t i = 0; i < call.in.size(); ++i)
      in.push_back(call.in[i] ? program_.input("in" + std::to_string(i), call.in_type(static_cast<int>(i)))
                              : Value{});
    (void)program_.emit(*call.node.op, in, call.node.attrs);
    impl_ = implementation(host, node(), program_);
    if (impl_->workspace_bytes) workspace_bytes_ = impl_->workspace_bytes(node(), program_);
  }

  const Node& node() const { return program_.nodes()[0]; }
  /// Room for the workspace, wherever it begins.
  size_t room() const { return workspace_bytes_ == 0 ? 0 : workspace_bytes_ + host_.info().alignment; }

  void run(std::span<std::byte* const> in, std::span<std::byte* const> out, void* room) {
    size_t space = this->room();
    void* workspace =
        room == nullptr ? nullptr : std::align(host_.info().alignment, workspace_bytes_, room, space);
    host_.run_node(program_, node(), *impl_, in, out, static_cast<std::byte*>(workspace)).check();
  }

 private:
  Backend& host_;  // HostImpl keeps it
  Program program_;
  const Impl* impl_;
  size_t workspace_bytes_ = 0;
};

/// The node as an operation of MLX on one of its CPU streams, over the memory of MLX's arrays.
class HostPrimitive : public mx::Primitive {
 public:
  HostPrimitive(mx::Stream stream, std::shared_ptr<HostNode> node)
      : Primitive(stream), node_(std::move(node)) {}

  void eval_cpu(const Arrays& inputs, Arrays& outputs) override {
    const Node& node = node_->node();
    std::vector<std::byte*> in, out;
    for (const int id : node.in)
      in.push_back(id < 0 ? nullptr
                          : const_cast<std::byte*>(inputs[static_cast<size_t>(id)].data<std::byte>()));
    for (mx::array& x : outputs) {
      x.set_data(mx::allocator::malloc(x.nbytes()));
      out.push_back(x.data<std::byte>());
    }
    struct Copy {
      std::byte *to, *from;
      size_t bytes;
    };
    std::vector<Copy> copies;  // arrays of MLX do not change: what is updated is a new one
    for (const InPlace& update : node.op->in_place) {
      const size_t i = static_cast<size_t>(update.in), o = static_cast<size_t>(update.out);
      copies.push_back({out[o], in[i], outputs[o].nbytes()});
      in[i] = out[o];
    }
    const auto room = std::make_shared<mx::allocator::Data>(mx::allocator::malloc(node_->room()));
    // MLX keeps the arrays until what is dispatched has run.
    mx::cpu::get_command_encoder(stream()).dispatch([node = node_, in, out, copies, room] {
      for (const Copy& copy : copies) std::memcpy(copy.to, copy.from, copy.bytes);
      node->run(in, out, node->room() == 0 ? nullptr : room->buffer().raw_ptr());
    });
  }
  void eval_gpu(const Arrays&, Arrays&) override {
    fail(ErrorCode::kInternal, "mlx: a host node on a GPU stream");
  }
  const char* name() const override { return "LatheHostNode"; }

 private:
  std::shared_ptr<HostNode> node_;
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
    const auto node = std::make_shared<HostNode>(call, *host);
    return mx::array::make_arrays(shapes, dtypes, std::make_shared<HostPrimitive>(stream, node), in);
  }
};

}  // namespace

std::unique_ptr<MlxImpl> host_impl(std::shared_ptr<Backend> host, mx::Stream stream) {
  auto impl = std::make_unique<HostImpl>(stream);
  impl->name = host->info().kind;
  impl->on_host = true;
  impl->accepts = [host](const Node& node, const Program& program) {
    return implementation(*host, node, program) != nullptr;
  };
  impl->workspace_bytes = [host](const Node& node, const Program& program) -> size_t {
    const Impl* theirs = implementation(*host, node, program);
    return (theirs->workspace_bytes ? theirs->workspace_bytes(node, program) : 0) +
           update_bytes(node, program);
  };
  impl->host = std::move(host);
  return impl;
}

}  // namespace lathe::mlx
