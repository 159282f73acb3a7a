#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "lathe/core/error.h"
#include "lathe/io/file_system.h"
#include "lathe/io/tensor_view.h"

namespace lathe {

/// A tensor to be written.  It is asked for one part at a time, so it need never be in memory as a whole.
struct TensorSource {
  DType dtype = DType::f32;
  Shape shape;
  /// Fills `out` with the bytes from `begin` on.
  std::function<Status(size_t begin, std::span<std::byte> out)> read;
};

/// Name → tensor, in the order of the names.
using TensorSources = std::map<std::string, TensorSource, std::less<>>;

/// What is in memory already; it must outlive the source.
TensorSource source_of(const TensorView& tensor);

/// Gives all of a tensor to the sink.  Errors: those of both.
Status write_tensor(const TensorSource& tensor, const Sink& sink);

}  // namespace lathe
