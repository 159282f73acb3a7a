#include "lathe/backends/cuda/graph_edges.h"

#include <string_view>
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

/// A kernel of namespace lathe::cuda; those of libraries do not wait for what is before them.
bool follows(cudaGraphNode_t node) {
  cudaKernelNodeParams params{};
  const char* name = nullptr;
  const bool known = is_kernel(node) && cudaGraphKernelNodeGetParams(node, &params) == cudaSuccess &&
                     cudaFuncGetName(&name, params.func) == cudaSuccess && name != nullptr;
  cudaGetLastError();  // what asking about a library's kernel has left
  return known && std::string_view(name).find("5lathe4cuda") != std::string_view::npos;
}

bool launches_ahead() {
  int device = 0, major = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         major >= 9;
}

}  // namespace

void launch_ahead(cudaGraph_t graph) {
  if (!launches_ahead()) return;
  for (const Edge& edge : edges_of(graph)) {
    if (edge.data.type != cudaGraphDependencyTypeDefault || !is_kernel(edge.from) || !follows(edge.to))
      continue;
    cudaGraphEdgeData ahead{};
    ahead.from_port = cudaGraphKernelNodePortProgrammatic;
    ahead.type = cudaGraphDependencyTypeProgrammatic;
    check(cudaGraphRemoveDependencies(graph, &edge.from, &edge.to, &edge.data, 1), "changing a graph");
    check(cudaGraphAddDependencies(graph, &edge.from, &edge.to, &ahead, 1), "changing a graph");
  }
}

}  // namespace lathe::cuda
