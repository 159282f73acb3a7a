#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lathe {

/// What a tensor has values for.  kRow: samples, whatever the number of their rows.  kScored: tokens, of
/// which a batch keeps those with a value that is not negative, and their places as "scored_index".
enum class Extent : uint8_t { kRow, kToken, kScored };

/// Values of samples or tokens under the name that Hugging Face gives them: what a task learns from.
struct Tensor {
  std::string name;
  Extent extent = Extent::kRow;
  int64_t width = 1;  ///< values for each sample or token
  std::variant<std::vector<int32_t>, std::vector<float>> values;

  size_t size() const {
    return std::visit([](const auto& list) { return list.size(); }, values);
  }
  std::span<const std::byte> bytes() const {
    return std::visit([](const auto& list) { return std::as_bytes(std::span(list)); }, values);
  }
};

/// Tensors by name, in the order in which they came.  There are few: a search is a walk.
class TensorList {
 public:
  /// Null: there is none, or it has no values.
  const Tensor* find(std::string_view name) const {
    for (const Tensor& tensor : tensors_)
      if (tensor.name == name && tensor.size() > 0) return &tensor;
    return nullptr;
  }
  /// Empty where there is none of that type.
  const std::vector<int32_t>& ints(std::string_view name) const { return get<int32_t>(name); }
  const std::vector<float>& floats(std::string_view name) const { return get<float>(name); }
  /// The values to change, with this extent and width from now on; made, in place of those of the other type,
  /// where there are none.  Keeps their memory.  To read a list that is not const take std::as_const of it.
  std::vector<int32_t>& ints(std::string_view name, Extent extent = Extent::kRow) {
    return put<int32_t>(name, extent, 1);
  }
  std::vector<float>& floats(std::string_view name, int64_t width = 1) {
    return put<float>(name, Extent::kRow, width);
  }
  /// Its values after those that are there, if any.
  void append(const Tensor& more) {
    std::visit(
        [&]<typename T>(const std::vector<T>& values) {
          std::vector<T>& list = put<T>(more.name, more.extent, more.width);
          list.insert(list.end(), values.begin(), values.end());
        },
        more.values);
  }
  /// All are empty then, and keep their memory.
  void clear() {
    for (Tensor& tensor : tensors_) std::visit([](auto& list) { list.clear(); }, tensor.values);
  }
  /// Keeps the values of the first samples, which have this many tokens.
  void truncate(int64_t samples, int64_t tokens) {
    for (Tensor& tensor : tensors_) {
      const int64_t kept = tensor.width * (tensor.extent == Extent::kRow ? samples : tokens);
      std::visit([&](auto& list) { list.resize(std::min(list.size(), static_cast<size_t>(kept))); },
                 tensor.values);
    }
  }
  void erase(std::string_view name) {
    std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
  }

  auto begin() const { return tensors_.begin(); }
  auto end() const { return tensors_.end(); }

 private:
  template <typename T>
  const std::vector<T>& get(std::string_view name) const {
    static const std::vector<T> kNone;
    const Tensor* tensor = find(name);
    const auto* values = tensor == nullptr ? nullptr : std::get_if<std::vector<T>>(&tensor->values);
    return values == nullptr ? kNone : *values;
  }
  template <typename T>
  std::vector<T>& put(std::string_view name, Extent extent, int64_t width) {
    Tensor* found = nullptr;
    for (Tensor& tensor : tensors_)
      if (tensor.name == name) found = &tensor;
    if (found == nullptr) found = &tensors_.emplace_back(Tensor{.name = std::string(name), .values = {}});
    found->extent = extent;
    found->width = width;
    if (!std::holds_alternative<std::vector<T>>(found->values)) found->values = std::vector<T>{};
    return std::get<std::vector<T>>(found->values);
  }

  std::deque<Tensor> tensors_;  // who holds values keeps them when others come
};

}  // namespace lathe
