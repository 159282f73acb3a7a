#include <cstdlib>
#include <cstring>
#include <vector>

#include "lathe/io/safetensors.h"

/// Any bytes: refused with an Error, or every tensor can be read to its last byte.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lathe;
  const MappedFile file({reinterpret_cast<const std::byte*>(data), size}, nullptr);
  try {
    const SafetensorsFile parsed = SafetensorsFile::parse(file, "input");
    std::vector<float> out;
    for (const std::string& name : parsed.names()) {
      try {
        const TensorView* tensor = parsed.find(name);
        if (tensor == nullptr) std::abort();
        out.resize(static_cast<size_t>(elements(tensor->shape)));
        to_f32(*tensor, out.data());
        (void)find_non_finite(*tensor);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kUnsupported) std::abort();
      }
    }
  } catch (const Error&) {
  }
  return 0;
}
