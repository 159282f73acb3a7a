#include "lathe/backends/cuda/graph.h"

#include <cuda.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/backends/cuda/device.h"

namespace lathe::cuda {
namespace {

struct Edge {
  cudaGraphNode_t from, to;
  cudaGraphEdgeData data;
};

std::vector<Edge> edges_of(cudaGraph_t graph) {
  size_t count = 0;
  check(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count), "reading a graph");
  std::vector<cudaGraphNode_t> from(count), to(count);
  std::vector<cudaGraphEdgeData> data(count);
  check(cudaGraphGetEdges(graph, from.data(), to.data(), data.data(), &count), "reading a graph");
  std::vector<Edge> edges;
  for (size_t i = 0; i < count; ++i) edges.push_back({from[i], to[i], data[i]});
  return edges;
}

bool is_kernel(cudaGraphNode_t node) {
  cudaGraphNodeType type{};
  return cudaGraphNodeGetType(node, &type) == cudaSuccess && type == cudaGraphNodeTypeKernel;
}

/// Names of kernels by the driver's functions: the runtime's functions know no kernels of libraries, and
/// report an error when asked.
class KernelNames {
 public:
  KernelNames()
      : params_(find<decltype(params_)>("cuGraphKernelNodeGetParams")),
        of_function_(find<decltype(of_function_)>("cuFuncGetName")),
        of_kernel_(find<decltype(of_kernel_)>("cuKernelGetName")) {}

  /// Empty where the driver does not tell.
  std::string_view of(cudaGraphNode_t node) const {
    CUDA_KERNEL_NODE_PARAMS params{};
    const char* name = nullptr;
    if (params_ == nullptr || of_function_ == nullptr || of_kernel_ == nullptr) return {};
    if (params_(node, &params) != CUDA_SUCCESS) return {};
    const CUresult found =
        params.func != nullptr ? of_function_(&name, params.func) : of_kernel_(&name, params.kern);
    return found == CUDA_SUCCESS ? name : std::string_view{};
  }

 private:
  template <typename F>
  static F find(const char* name) {
    void* entry = nullptr;
    constexpr unsigned kVersion = 12030;  // the first that has all of them
    if (cudaGetDriverEntryPointByVersion(name, &entry, kVersion, cudaEnableDefault, nullptr) != cudaSuccess)
      return nullptr;
    return reinterpret_cast<F>(entry);
  }

  decltype(&cuGraphKernelNodeGetParams) params_;
  decltype(&cuFuncGetName) of_function_;
  decltype(&cuKernelGetName) of_kernel_;
};

/// A kernel of namespace lathe::cuda; those of libraries do not wait for what is before them.
bool follows(cudaGraphNode_t node, const KernelNames& names) {
  return is_kernel(node) && names.of(node).find("5lathe4cuda") != std::string_view::npos;
}

bool launches_ahead() {
  int device = 0, major = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         major >= 9;
}

std::vector<cudaGraphNode_t> nodes_of(cudaGraph_t graph) {
  size_t count = 0;
  check(cudaGraphGetNodes(graph, nullptr, &count), "reading a graph");
  std::vector<cudaGraphNode_t> nodes(count);
  check(cudaGraphGetNodes(graph, nodes.data(), &count), "reading a graph");
  return nodes;
}

Launches launches_of(cudaGraph_t graph) {
  Launches launches;
  for (cudaGraphNode_t node : nodes_of(graph)) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    check(cudaGraphNodeGetType(node, &type), "counting a graph's nodes");
    if (type == cudaGraphNodeTypeKernel) ++launches["kernel"];
    if (type == cudaGraphNodeTypeMemcpy) ++launches["copy"];
    if (type == cudaGraphNodeTypeMemset) ++launches["fill"];
  }
  return launches;
}

bool fills_with_zeros(cudaGraphNode_t node, const Region& region) {
  cudaGraphNodeType type{};
  cudaMemsetParams fill{};
  if (cudaGraphNodeGetType(node, &type) != cudaSuccess || type != cudaGraphNodeTypeMemset) return false;
  check(cudaGraphMemsetNodeGetParams(node, &fill), "reading a graph");
  const auto* to = static_cast<const std::byte*>(fill.dst);
  return fill.value == 0 && fill.height == 1 && region.data <= to &&
         to + fill.width * fill.elementSize <= region.data + region.bytes;
}

/// Removes a node: what followed it then follows what was before it.
void leave_out(cudaGraph_t graph, cudaGraphNode_t node) {
  std::vector<cudaGraphNode_t> before, behind;
  for (const Edge& edge : edges_of(graph)) {
    if (edge.to == node) before.push_back(edge.from);
    if (edge.from == node) behind.push_back(edge.to);
  }
  check(cudaGraphDestroyNode(node), "changing a graph");
  const std::vector<Edge> there = edges_of(graph);
  for (cudaGraphNode_t from : before)
    for (cudaGraphNode_t to : behind)
      if (std::none_of(there.begin(), there.end(),
                       [&](const Edge& edge) { return edge.from == from && edge.to == to; }))
        check(cudaGraphAddDependencies(graph, &from, &to, nullptr, 1), "changing a graph");
}

/// Removes all fills except the first one, which has nothing before it; that one, too, if there is no other.
void leave_out_fills(cudaGraph_t graph, const Region& zeroed) {
  if (zeroed.bytes == 0) return;
  cudaGraphNode_t first = nullptr;
  bool others = false;
  for (cudaGraphNode_t node : nodes_of(graph)) {
    size_t before = 0;
    if (!fills_with_zeros(node, zeroed)) continue;
    check(cudaGraphNodeGetDependencies(node, nullptr, nullptr, &before), "reading a graph");
    if (before > 0)
      leave_out(graph, node), others = true;
    else
      first = node;
  }
  if (first != nullptr && !others) leave_out(graph, first);
}

void launch_ahead(cudaGraph_t graph) {
  if (!launches_ahead()) return;
  const KernelNames names;
  for (const Edge& edge : edges_of(graph)) {
    if (edge.data.type != cudaGraphDependencyTypeDefault || !is_kernel(edge.from) || !follows(edge.to, names))
      continue;
    cudaGraphEdgeData ahead{};
    ahead.from_port = cudaGraphKernelNodePortProgrammatic;
    ahead.type = cudaGraphDependencyTypeProgrammatic;
    check(cudaGraphRemoveDependencies(graph, &edge.from, &edge.to, &edge.data, 1), "changing a graph");
    check(cudaGraphAddDependencies(graph, &edge.from, &edge.to, &ahead, 1), "changing a graph");
  }
}

}  // namespace

Graph::Graph(cudaStream_t stream, const std::function<void()>& launches, Region zeroed) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "capturing");
  const auto end = [&] {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream, &graph);
    return std::pair{error,
                     std::unique_ptr<CUgraph_st, decltype(&cudaGraphDestroy)>(graph, cudaGraphDestroy)};
  };
  try {
    if (zeroed.bytes > 0) check(cudaMemsetAsync(zeroed.data, 0, zeroed.bytes, stream), "capturing");
    launches();
  } catch (...) {
    (void)status_of(end().first, "capturing");
    throw;
  }
  const auto [error, graph] = end();
  check(error, "capturing");
  leave_out_fills(graph.get(), zeroed);
  launches_ = launches_of(graph.get());
  launch_ahead(graph.get());
  check(cudaGraphInstantiate(&executable_, graph.get(), 0), "making a graph");
}

Graph::~Graph() { cudaGraphExecDestroy(executable_); }

}  // namespace lathe::cuda
