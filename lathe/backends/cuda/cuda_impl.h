#pragma once
#include <cuda_runtime_api.h>

#include <vector>

#include "lathe/program/backend.h"

namespace lathe::cuda {

class Products;
class Nccl;

/// What a node that is launched sees: its stream, its tensors (addresses on the device) and its workspace.
struct Call {
  cudaStream_t stream;
  const Node& node;
  const Program& program;
  std::vector<std::byte*> in, out;  ///< null for an optional input that is not given
  std::byte* workspace;
  std::byte* own;                ///< own_bytes of this node only, in its Graph's zeroed region
  cudaStream_t side = nullptr;   ///< null: nothing runs at the same time
  cudaEvent_t fork = nullptr;    ///< for `beside` and `join`
  Products& products;            ///< the matrix products of this device
  const void* weight = nullptr;  ///< a linear layer's weight rounded to the dtype of its activations
  const void* bias = nullptr;    ///< the same of its bias, where it has one
  void* rounded = nullptr;  ///< of adamw, all_gather: the rounded copy of operand 0 that it writes, or null
  DType rounded_type = DType::f32;
  bool out_is_read = true;     ///< of out[0]; false: it need not be written
  const Nccl* nccl = nullptr;  ///< of all_reduce, all_gather, gather_ranks; null: this process only

  /// The stream for late outputs: it begins after all that was launched on `stream` so far, and runs at the
  /// same time as what follows there.
  cudaStream_t beside() const { return side == nullptr ? stream : fork_to(side); }
  cudaStream_t fork_to(cudaStream_t other) const {
    cudaEventRecord(fork, stream);
    cudaStreamWaitEvent(other, fork);
    return other;
  }

  /// Makes what follows on `stream` begin after all that was launched on `beside()` so far.
  void join() const {
    if (side == nullptr) return;
    cudaEventRecord(fork, side);
    cudaStreamWaitEvent(stream, fork);
  }

  template <typename T>
  const T* input(int i) const {
    return reinterpret_cast<const T*>(in[static_cast<size_t>(i)]);
  }
  template <typename T>
  T* output(int i) const {
    return reinterpret_cast<T*>(out[static_cast<size_t>(i)]);
  }
  const Type& in_type(int i) const { return program.type(node.in[static_cast<size_t>(i)]); }
  const Type& out_type(int i) const { return program.type(node.out[static_cast<size_t>(i)]); }
  /// Elements in the last axis, and the product of the others.
  int64_t cols(int i) const { return in_type(i).shape.back(); }
  int64_t rows(int i) const { return elements(in_type(i)) / cols(i); }
};

/// Which part of a node with late outputs runs at the same time as the nodes that follow it.
enum class Late {
  kNode,  ///< all of it: its inputs and its workspace are read meanwhile
  kEnd    ///< its last part, which reads only the workspace
};
constexpr size_t kLateKinds = 2;

/// One entry of a family's table: an op, the function that launches it (everything on `stream`, nothing
/// waits, nothing is allocated: it runs under stream capture), its workspace, and which nodes it takes.
/// Entries with more say it by name.
struct Entry {
  const OpDef* op;
  const char* name;
  void (*launch)(const Call&);  ///< null: a view, which the memory plan has resolved
  size_t (*workspace_bytes)(const Node&, const Program&) = nullptr;
  bool (*accepts)(const Node&, const Program&) = nullptr;
  void (*prepare)(const Call&) = nullptr;  ///< what has to be done once, outside of a capture
  /// Outputs (bit i: output i) that `launch` puts on `beside`: they may still be computed while the nodes
  /// that follow run, until one of them is read.  Two such nodes of one kind may be in flight.  0: none.
  uint32_t late_outputs = 0;
  Late late = Late::kNode;
  /// Runs at the same time as all that follows, until one of its outputs is read (an exchange between
  /// processes); it waits only for earlier nodes of its kind.  `stream` is its queue.  Its tensors keep their
  /// places to the end.
  bool own_queue = false;
  size_t (*own_bytes)(const Node&, const Program&) = nullptr;
  /// What can be done before the node's turn, next to others: reads only inputs of the program, writes `own`.
  void (*begin)(const Call&) = nullptr;
};

/// An implementation on a GPU.
struct CudaImpl : Impl {
  Entry entry;
};

/// Impl::in_use of nodes with late outputs or a queue of their own; the selection is of CudaImpl.
InUse in_use(int node, const Program& program, const Selection& selection);

/// The tables, one per family.  Of one op, the better implementation comes first.
std::vector<Entry> attention_entries();
std::vector<Entry> elementwise_entries();
std::vector<Entry> flat_entries();
/// Empty where the GPU has no products of fp8.
std::vector<Entry> fp8_entries();
std::vector<Entry> linear_cross_entropy_entries();
std::vector<Entry> loss_entries();
std::vector<Entry> product_entries();
std::vector<Entry> pooling_entries();
std::vector<Entry> similarity_entries();
std::vector<Entry> row_entries();

}  // namespace lathe::cuda
