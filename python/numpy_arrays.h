#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>
#include <vector>

namespace lathe {

template <typename T>
using Array = nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
template <typename T>
using Matrix = nanobind::ndarray<const T, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;
template <typename T>
using Numpy = nanobind::ndarray<nanobind::numpy, T>;

template <typename T>
std::vector<T> values_of(const Array<T>& array) {
  return {array.data(), array.data() + array.size()};
}

/// An array that owns the values.  columns: 0 for one dimension.
template <typename T>
Numpy<T> to_numpy(std::vector<T> values, size_t columns = 0) {
  auto* kept = new std::vector<T>(std::move(values));
  const nanobind::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  if (columns == 0) return Numpy<T>(kept->data(), {kept->size()}, owner);
  return Numpy<T>(kept->data(), {kept->size() / columns, columns}, owner);
}

}  // namespace lathe
