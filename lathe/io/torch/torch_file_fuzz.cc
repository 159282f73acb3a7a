#include <cstdlib>
#include <vector>

#include "lathe/io/torch/torch_file.h"

namespace {

using namespace lathe;

void read_all(const PickleValue& value) {
  if (const auto* list = value.as<PickleValue::List>())
    for (const PickleValue* item : list->items) read_all(*item);
  if (const auto* tuple = value.as<PickleValue::Tuple>())
    for (const PickleValue* item : tuple->items) read_all(*item);
  if (const auto* dict = value.as<PickleValue::Dict>())
    for (const auto& [key, item] : dict->items) read_all(*key), read_all(*item);
  if (const auto* object = value.as<PickleValue::Object>()) {
    read_all(*object->arguments);
    if (object->state != nullptr) read_all(*object->state);
  }
  if (const auto* tensor = value.as<TensorView>()) {
    std::vector<float> out(static_cast<size_t>(elements(tensor->shape)));
    to_f32(*tensor, out.data());
  }
}

}  // namespace

/// The first byte chooses: the rest is a whole file, or a pickle on its own, which a file's CRC would hide,
/// without or with objects.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const std::vector<std::byte> storage(64);
  try {
    if (data[0] == 'z') {
      read_all(TorchFile::parse(MappedFile(rest, nullptr), "input").root());
    } else {
      const auto bytes = [&storage](const std::string& key) {
        return std::span<const std::byte>(storage).subspan(0, key.size() % 65);
      };
      const PickleTree tree = unpickle(rest, "input", bytes, data[0] == 'o');
      read_all(*tree.root);
    }
  } catch (const Error&) {
  }
  return 0;
}
