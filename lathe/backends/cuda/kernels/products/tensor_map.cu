#include <cuda_runtime_api.h>

#include "lathe/backends/cuda/kernels/products/tensor_map.h"

namespace lathe::cuda {
namespace {

constexpr int kPanel = 64, kMostRank = 3;

decltype(&cuTensorMapEncodeTiled) find_encode() {
  void* entry = nullptr;
  constexpr unsigned kVersion = 12000;  // the first that has it
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, kVersion, cudaEnableDefault,
                                       nullptr) != cudaSuccess)
    return nullptr;
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
}

/// Sizes and the box from the innermost axis on; strides of the other axes, in bytes.
struct Layout {
  int64_t sizes[kMostRank], strides[kMostRank - 1];
  int box[kMostRank];
};

CUresult encode(CUtensorMap& map, const void* x, DType type, int rank, const Layout& layout) {
  static const auto call = find_encode();
  if (call == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  cuuint64_t sizes[kMostRank], strides[kMostRank - 1];
  cuuint32_t box[kMostRank];
  const cuuint32_t steps[kMostRank] = {1, 1, 1};
  for (int i = 0; i < rank; ++i) {
    sizes[i] = static_cast<cuuint64_t>(layout.sizes[i]);
    box[i] = static_cast<cuuint32_t>(layout.box[i]);
    if (i + 1 < rank) strides[i] = static_cast<cuuint64_t>(layout.strides[i]);
  }
  const CUtensorMapDataType element =
      type == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  return call(&map, element, static_cast<cuuint32_t>(rank), const_cast<void*>(x), sizes, strides, box, steps,
              CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

}  // namespace

CUresult describe_boxes(CUtensorMap& map, const void* x, DType type, int64_t rows, int64_t cols,
                        int box_rows) {
  return encode(map, x, type, 2, {{cols, rows}, {cols * 2}, {kPanel, box_rows}});
}

CUresult describe_panels(CUtensorMap& map, const void* x, DType type, int64_t rows, int64_t cols,
                         int box_cols) {
  return encode(map, x, type, 3,
                {{kPanel, rows, cols / kPanel}, {cols * 2, kPanel * 2}, {kPanel, kPanel, box_cols / kPanel}});
}

}  // namespace lathe::cuda
