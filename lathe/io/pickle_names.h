#pragma once
#include <algorithm>
#include <array>
#include <string_view>

#include "lathe/core/dtype.h"

namespace lathe {

// The names that a dict of tensors needs in a pickle.

struct StorageClass {
  std::string_view name;
  DType dtype;
};
inline constexpr std::array<StorageClass, 8> kStorageClasses = {{
    {"torch.FloatStorage", DType::f32},
    {"torch.HalfStorage", DType::f16},
    {"torch.BFloat16Storage", DType::bf16},
    {"torch.DoubleStorage", DType::f64},
    {"torch.LongStorage", DType::i64},
    {"torch.IntStorage", DType::i32},
    {"torch.ByteStorage", DType::u8},
    {"torch.BoolStorage", DType::u8},
}};

inline constexpr std::string_view kOrderedDict = "collections.OrderedDict", kSize = "torch.Size";
inline constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor_v2";
inline constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";

inline constexpr std::array<std::string_view, 20> kOtherNames = {
    kOrderedDict,     kSize,           kRebuildTensor, kRebuildParameter, "torch.float32",
    "torch.float",    "torch.float64", "torch.double", "torch.float16",   "torch.half",
    "torch.bfloat16", "torch.int64",   "torch.long",   "torch.int32",     "torch.int",
    "torch.int16",    "torch.short",   "torch.int8",   "torch.uint8",     "torch.bool"};

/// Null if it is none.
inline const StorageClass* find_storage_class(std::string_view name) {
  for (const StorageClass& c : kStorageClasses)
    if (c.name == name) return &c;
  return nullptr;
}

/// Whether a dict of tensors is pickled with it.
inline bool is_known(std::string_view name) {
  return find_storage_class(name) != nullptr ||
         std::find(kOtherNames.begin(), kOtherNames.end(), name) != kOtherNames.end();
}

}  // namespace lathe
