#include <array>
#include <cstdint>
#include <vector>

#include "lathe/io/torch/torch_file.h"
#include "lathe/train/python/python_checkpoint.h"

/// The first byte chooses: the rest is a whole optimizer.pt, or its pickle on its own, which a file's CRC
/// would hide.  The model: a matrix with weight decay and a vector without.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lathe;
  if (size == 0) return 0;
  struct Model : nn::Module {
    Model() {
      add_parameter({.name = "weight", .shape = {2, 3}});
      add_parameter({.name = "bias", .shape = {2}, .decay = false});
    }
  };
  static const Model model;
  static const nn::Layout layout = nn::layout_of(model);
  // In the order of torch.save: step and two moments of either.
  constexpr std::array<size_t, 6> kStorageBytes = {4, 24, 24, 4, 8, 8};
  static const std::vector<std::byte> zeros(24);
  const std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  try {
    if (data[0] == 'z') {
      const TorchFile file = TorchFile::parse(MappedFile(rest, nullptr), "input");
      python_optimizer_from(file.root(), "input", model.parameters(), layout);
    } else {
      const PickleTree tree = unpickle(rest, "input", [&](const std::string& key) {
        return std::span(zeros).first(key.empty() ? 0 : kStorageBytes[static_cast<uint8_t>(key[0]) % 6]);
      });
      python_optimizer_from(*tree.root, "input", model.parameters(), layout);
    }
  } catch (const Error&) {
  }
  return 0;
}
