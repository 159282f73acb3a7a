#include "lathe/io/tensor_source.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace lathe {

TensorSource source_of(const TensorView& tensor) {
  return {tensor.dtype, tensor.shape, [bytes = tensor.bytes](size_t begin, std::span<std::byte> out) {
            if (begin + out.size() > bytes.size())
              return Status(ErrorCode::kShape, "a tensor has fewer bytes than its shape");
            std::memcpy(out.data(), bytes.data() + begin, out.size());
            return Status();
          }};
}

Status write_tensor(const TensorSource& tensor, const Sink& sink) {
  constexpr size_t kPart = size_t{1} << 20;
  const size_t bytes = bytes_of(Type{tensor.dtype, tensor.shape});
  std::vector<std::byte> part(std::min(bytes, kPart));
  Status status;
  for (size_t begin = 0; begin < bytes && status.ok(); begin += part.size()) {
    part.resize(std::min(bytes - begin, kPart));
    status = tensor.read(begin, part);
    if (status.ok()) status = sink(part);
  }
  return status;
}

}  // namespace lathe
