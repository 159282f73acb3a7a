#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "lathe/core/float16.h"

namespace lathe::group {

/// The order in which ranks in a ring send, over any transport that can exchange: send to the next rank and
/// receive from the previous one at the same time, and throw where that fails.  All transports with this
/// order give the same bits.  Nothing here is linked: the parts include it, too.  Source: P. Patarasuk, X.
/// Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69 (2009).
class RingOrder {
 public:
  using Exchange = std::function<void(const void* out, size_t out_bytes, void* in, size_t in_bytes)>;
  RingOrder(int rank, int size, Exchange exchange)
      : rank_(rank), size_(size), exchange_(std::move(exchange)) {}

  /// values[i] = Σ over ranks of values[i], each sum of two rounded to the type.  Part p of a piece is summed
  /// along the ring, from the rank after p to rank p; then it goes round once more.
  template <typename T>
  void sum(T* values, size_t count) {
    auto& arrived = std::get<std::vector<T>>(arrived_);
    const size_t ranks = static_cast<size_t>(size_), most = kPiece * ranks;
    for (size_t begin = 0; begin < count; begin += most) {
      const size_t n = std::min(most, count - begin);
      T* const piece = values + begin;
      const auto part = [&](int step) {  // the part that this rank sends in a step
        const size_t p = static_cast<size_t>(((rank_ - step) % size_ + size_) % size_);
        return std::pair(n * p / ranks, n * (p + 1) / ranks);
      };
      for (int step = 1; step < size_; ++step) {
        const auto [first, end] = part(step);
        const auto [into, into_end] = part(step + 1);
        arrived.resize(into_end - into);
        exchange_(piece + first, (end - first) * sizeof(T), arrived.data(), (into_end - into) * sizeof(T));
        for (size_t i = into; i < into_end; ++i) add(piece[i], arrived[i - into]);
      }
      for (int step = 0; step + 1 < size_; ++step) {
        const auto [first, end] = part(step);
        const auto [into, into_end] = part(step + 1);
        exchange_(piece + first, (end - first) * sizeof(T), piece + into, (into_end - into) * sizeof(T));
      }
    }
  }

  /// Every rank gets what `root` holds.
  void broadcast(char* data, size_t bytes, int root) {
    const bool last = (rank_ + 1) % size_ == root;
    for (size_t begin = 0; begin < bytes; begin += kPiece) {
      const size_t n = std::min(kPiece, bytes - begin);
      if (rank_ != root) exchange_(nullptr, 0, data + begin, n);
      if (!last) exchange_(data + begin, n, nullptr, 0);
    }
  }

  /// As Transport::gather.
  void gather(const char* mine, const size_t* bytes, char* all) {
    std::vector<size_t> begins(1, 0);
    for (int r = 0; r < size_; ++r) begins.push_back(begins.back() + bytes[r]);
    char* const place = all + begins[static_cast<size_t>(rank_)];
    if (place != mine) std::memcpy(place, mine, bytes[rank_]);
    for (int step = 0; step + 1 < size_; ++step) {
      const size_t out = static_cast<size_t>((rank_ - step + size_) % size_);
      const size_t in = static_cast<size_t>((rank_ - step - 1 + size_) % size_);
      exchange_(all + begins[out], bytes[out], all + begins[in], bytes[in]);
    }
  }

 private:
  static void add(float& sum, float x) { sum += x; }
  static void add(bf16& sum, bf16 x) { sum = to_bf16(to_float(sum) + to_float(x)); }

  static constexpr size_t kPiece = size_t{256} << 10;  // elements, or bytes of a broadcast, that go at once

  const int rank_, size_;
  Exchange exchange_;
  std::tuple<std::vector<float>, std::vector<bf16>> arrived_;  // kept: a step sums many times
};

}  // namespace lathe::group
